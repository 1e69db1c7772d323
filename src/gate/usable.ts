/** Which tools a caller may use at all, and answers without the names of others: what was decided under one key is told under another. */
import type { Answer, Principal } from '../model.js';
import { decideTool } from './authorize.js';
import { isListed } from './listed.js';
import type { Served } from './served.js';

/** On its list, and permitted by policy for one of its purposes. */
export function mayUse({ catalogue, policy }: Served, principal: Principal, name: string): boolean {
  const tool = catalogue.tools.get(name);
  if (!tool || !isListed(principal, name)) return false;
  const purposes = principal.purposes.length > 0 ? principal.purposes : [''];
  return purposes.some((purpose) => decideTool(policy, { principal, envelope: { subject: principal.subject ?? '', purpose } }, tool).allowed);
}

/** As this caller is told it. Legal actions were asked of policy when they were found; which of them are on the list says the key that asks. */
export function offering(served: Served, principal: Principal, answer: Answer): Answer {
  const { compensate, verify_with: verify } = answer;
  const hidesUndo = compensate !== undefined && !mayUse(served, principal, compensate.tool);
  const hidesReader = verify !== undefined && !mayUse(served, principal, verify.tool);
  const hidesAction = answer.legal_actions.some((name) => !isListed(principal, name));
  if (!hidesUndo && !hidesReader && !hidesAction) return answer;
  const told = { ...answer, legal_actions: answer.legal_actions.filter((name) => isListed(principal, name)) };
  if (hidesUndo) delete told.compensate;
  if (hidesReader) {
    delete told.verify_with;
    told.detail = unnamedReader;
  }
  return told;
}

const unnamedReader = 'It was done and is not confirmed yet; the gateway goes on looking. Ask for this operation again.';
