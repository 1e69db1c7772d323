/** The receipts of one call, told to a person: which stage, which policy, why, and what became of it. Pure. */
import { problems, type ProblemCode } from '../errors.js';
import type { Json, JsonObject } from '../model.js';
import type { Policy } from '../policy/read.js';
import { actionsOf, resourceTypeOf } from '../policy/footprint.js';

/** The policies at hand, to quote from. They may be others than those that decided. */
export interface PoliciesAtHand { version: string; policies: readonly Policy[] }

interface PolicyDenial { question: 'tool' | 'resource'; by: string[] }
interface PolicyNote { version: string; determining: string[]; errors: string[]; denied: PolicyDenial | null }

/** One call as the control plane has it: its receipts in their order; `operation` null where it was refused before there was one. */
export interface Story { operation: JsonObject | null; receipts: readonly JsonObject[] }

export function explanation({ operation, receipts }: Story, atHand: PoliciesAtHand | null): string {
  return [...receipts.map((receipt) => told(receipt, atHand)), ...(operation ? standing(operation) : [])].map((lines) => lines.join('\n')).join('\n\n');
}

function told(receipt: JsonObject, atHand: PoliciesAtHand | null): string[] {
  const { recorded_at: at, tool, disposition, id } = receipt;
  if (receipt['erased']) return [`${text(at)}  ${text(tool)}: ${text(disposition)}  (${text(id)})`, '  what it said was erased'];
  if (receipt['kind'] === 'effect') return effect(receipt);
  return 'proposer' in receipt ? person(receipt) : decision(receipt, atHand);
}

const waitsFor: Readonly<Record<string, string>> = {
  parked: 'it waits for an approval; nothing was sent',
  approved: 'it is approved, and about to be sent',
  sending: 'it is being sent; what becomes of it is not known yet',
  accepted: 'the service has taken it, and has not told what became of it',
  unknown: 'it may have happened; recovery finds out from the service',
  review: 'no evidence settles it: it waits for a person',
};

/** Nothing of an operation that has ended: its receipts say how. */
function standing({ state, attempt, reason, owner, due_at: due, review_id: review }: JsonObject): string[][] {
  const waiting = waitsFor[text(state)];
  if (waiting === undefined) return [];
  return [[
    `now  ${text(state)}: ${waiting}`,
    ...(state === 'parked' || state === 'approved' ? [] : [`  attempt      ${text(attempt)}`]),
    ...(reason ? [`  reason       ${text(reason)}`] : []),
    ...(owner ? [`  held by      ${text(owner)}`] : []),
    ...(due ? [`  looked at    ${text(due)}, if nobody goes on with it before`] : []),
    ...(state === 'review' && review ? [`  review       ${text(review)}`] : []),
  ]];
}

function decision(receipt: JsonObject, atHand: PoliciesAtHand | null): string[] {
  const { actor, purpose, refusal, observations, transition, approval, budget } = receipt as Record<string, JsonObject>;
  const version = object(receipt['contract'])['version'];
  return [
    `${text(receipt['recorded_at'])}  ${text(receipt['tool']) || 'no tool'}${version === undefined ? '' : ` ${text(version)}`}  (${text(receipt['id'])})`,
    `  proposed by  ${text(actor?.['principal'])}${roles(actor)}${actor?.['subject'] ? ` for ${text(actor['subject'])}` : ''}${purpose ? `, purpose ${text(purpose)}` : ''}, session ${text(receipt['session_id'])}`,
    `  arguments    ${JSON.stringify(receipt['arguments'] ?? null)}`,
    ...(Array.isArray(observations) ? observations as JsonObject[] : []).map((seen) =>
      `  observed     ${text(seen['name'])} by ${text(seen['source'])}, ${text(seen['age_ms'])} ms before${seen['version'] ? `, version ${text(seen['version'])}` : ''}`),
    ...(transition ? [`  transition   ${text(transition['entity'])} is ${text(transition['state'])}${transition['next'] ? `; ${text(transition['action'])} leads to ${text(transition['next'])}` : ''}`] : []),
    ...(approval ? [`  approval     ${JSON.stringify(approval)}`] : []),
    ...(budget ? [`  budget       ${text(budget['used'])} of ${text(budget['limit'])} ${text(budget['kind'])}`] : []),
    ...(refusal ? refused(refusal) : [`  admitted     ${text(receipt['disposition'])}`]),
    ...decidedBy(receipt, atHand),
  ];
}

function refused(refusal: JsonObject): string[] {
  const problem = problems[refusal['problem'] as ProblemCode] as (typeof problems)[ProblemCode] | undefined;
  const errors = (refusal['errors'] ?? []) as JsonObject[];
  return [
    `  refused      ${refusal['stage'] ? `in ${text(refusal['stage'])}: ` : ''}${text(refusal['code'])}. ${text(refusal['detail'])}`,
    ...errors.map((error) => `               ${text(error['pointer']) || '/'}  ${text(error['message'])}`),
    ...(problem ? [`  why          ${problem.why}`, `  what to do   ${problem.mend}`] : []),
  ];
}

/** Where policy was asked at all. Who denied is told apart from who had permitted the question before. */
function decidedBy(receipt: JsonObject, atHand: PoliciesAtHand | null): string[] {
  const { version, determining = [], errors = [], denied } = object(receipt['policy']) as unknown as Partial<PolicyNote>;
  if (!denied && determining.length === 0) return [];
  const found = (id: string): Policy | undefined => atHand?.policies.find((policy) => policy.id === id);
  const all = (word: string, ids: readonly string[]): string[] => ids.flatMap((id) => quoted(word, id, found(id)));
  return [
    `  policies     ${version ?? ''}${atHand === null ? '' : atHand.version === version ? ', which are those at hand' : '; those at hand are others'}`,
    ...all('permitted', determining.filter((id) => !denied?.by.includes(id))),
    ...all('denied', denied?.by ?? []),
    ...errors.map((error) => `               could not be evaluated, which denies: ${error}`),
    ...(denied && denied.by.length === 0 && errors.length === 0 ? [`               no policy permits it on this ${denied.question}${candidates(receipt, denied.question, atHand)}`] : []),
  ];
}

function quoted(word: string, id: string, policy: Policy | undefined): string[] {
  const head = `    ${word.padEnd(11)}${id}`;
  return policy === undefined ? [head] : [`${head}  ${policy.file}:${policy.line}`, ...policy.text.split('\n').map((line) => `               | ${line}`)];
}

/** What might have permitted it, had its conditions held. */
function candidates(receipt: JsonObject, question: PolicyDenial['question'], atHand: PoliciesAtHand | null): string {
  const could = (atHand?.policies ?? []).filter(({ json }) => json.effect === 'permit' && (actionsOf(json)?.includes(text(receipt['tool'])) ?? true)
    && (resourceTypeOf(json) === null || (resourceTypeOf(json) === 'Tool') === (question === 'tool')));
  return could.length === 0 ? '' : `; these could have, and their conditions did not hold: ${could.map(({ id, file, line }) => `${id} (${file}:${line})`).join(', ')}`;
}

function effect(receipt: JsonObject): string[] {
  const attempts = (receipt['attempts'] ?? []) as JsonObject[];
  return [
    `${text(receipt['recorded_at'])}  ${text(receipt['disposition'])}, ${text(receipt['outcome'])}${receipt['verified'] ? ', verified by a read-back' : ''}  (${text(receipt['id'])})`,
    `  key          ${text(receipt['idempotency_key'])}`,
    ...attempts.map((one) => `  attempt ${text(one['number'])}    ${one['sent'] ? 'sent' : 'not sent'}, ${text(one['status'] ?? one['reason'] ?? 'no answer')}: ${text(one['outcome'])} after ${text(one['ms'])} ms`),
    ...(receipt['readback'] ? [`  read back    ${JSON.stringify(receipt['readback'])}`] : []),
    ...(receipt['result'] === null || receipt['result'] === undefined ? [] : [`  result       ${JSON.stringify(receipt['result'])}`]),
    ...(receipt['reason'] ? [`  reason       ${text(receipt['reason'])}`] : []),
    ...(receipt['corrects'] ? [`  corrects     ${text(receipt['corrects'])}`] : []),
  ];
}

function person(receipt: JsonObject): string[] {
  const { actor } = receipt as Record<string, JsonObject>;
  const { decision: decided, because, review, approval } = receipt;
  return [
    `${text(receipt['recorded_at'])}  a person decided: ${text(decided ?? receipt['disposition'])}  (${text(receipt['id'])})`,
    `  by           ${text(actor?.['principal'])}${roles(actor)}`,
    ...(review ? [`  review       ${text(review)}`] : []),
    ...(approval ? [`  approval     ${JSON.stringify(approval)}`] : []),
    ...(because ? [`  because      ${text(because)}`] : []),
  ];
}

function roles(actor: JsonObject | undefined): string {
  const given = actor?.['roles'];
  return Array.isArray(given) && given.length > 0 ? ` (${given.join(', ')})` : '';
}

function object(value: Json | undefined): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}

function text(value: Json | undefined): string {
  return value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
}
