/** Values that a contract binds to the last result of another tool in this session: never text of a model. Read once the call was looked up. */
import { EvaluationError } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';
import type { Json } from '../model.js';
import { decideTool } from './authorize.js';
import type { FreshCall } from './calls.js';
import { isListed } from './listed.js';
import type { Parts } from './parts.js';
import { predicateError } from './predicate-error.js';
import { callScope, evaluateAll } from './scope.js';

/** A result that is kept for one entity is found once that one is known. */
export async function bindResults(parts: Parts, call: FreshCall): Promise<void> {
  if (call.resultsBound || (!call.identity.entity && call.tool.lasts.some(({ sameEntity }) => sameEntity))) return;
  call.unbound = await bound(parts, call);
  call.resultsBound = true;
}

async function bound(parts: Parts, call: FreshCall): Promise<Refusal | null> {
  const { tool, principal, envelope, identity } = call;
  const scope = callScope(call);
  for (const { name, tool: earlier, sameEntity } of tool.lasts) {
    const operation = await parts.ledger.lastResult({
      tenant: principal.tenant, principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId, tool: earlier,
      entity: sameEntity ? (identity.entity?.key ?? null) : null,
    });
    if (operation?.state !== 'committed') return missing(call, earlier);
    if (!operation.answer) return refuse('EARLIER_RESULT_EXPIRED', 'A value that this call needs is no longer kept.');
    scope[name] = operation.answer['result'];
  }
  try {
    call.bound = { ...call.bound, ...evaluateAll(tool.bindLast, scope) } as Record<string, Json>;
  } catch (error) {
    if (error instanceof EvaluationError) return predicateError('bind', error);
    throw error;
  }
  return null;
}

/** The tool that has to run first is named to those who may use it. */
function missing(call: FreshCall, earlier: string): Refusal {
  const { served, principal, tool } = call;
  const plan = served.catalogue.tools.get(earlier);
  const usable = plan !== undefined && isListed(principal, earlier) && decideTool(served.policy, call, plan).allowed;
  return usable
    ? refuse('EARLIER_RESULT_MISSING', `\`${tool.name}\` rests on a result of \`${earlier}\`, which has not committed in this session.`, { legalActions: [earlier] })
    : refuse('EARLIER_RESULT_MISSING', `\`${tool.name}\` rests on the result of another call, which has not committed in this session.`);
}
