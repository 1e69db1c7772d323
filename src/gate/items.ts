/**
 * The items of a list that one call is about, before it is sent: each has an identity of its own, so that no item is done twice by two calls
 * that mean the same, however the list around it is put together. While a call is open its items are held by guard keys; what it has done is
 * remembered with its end, and looked for under the guard epochs of whoever comes next.
 */
import { EvaluationError, type ToolPlan } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';
import type { Json, JsonObject } from '../model.js';
import type { PermittedCall } from './calls.js';
import type { ItemOutcomes } from './item-outcomes.js';
import type { Parts } from './parts.js';
import type { Dossier } from './ports.js';

/** By its key, in the order of the list. Empty where the arguments alone do not tell the items, or do not tell them apart. */
export function itemKeys({ partial }: ToolPlan, args: JsonObject): string[] {
  if (!partial?.at || listAt(args, partial.at) === null) return [];
  try {
    const keys = (partial.keys.evaluate({ args }) as Json[]).map(String);
    return new Set(keys).size === keys.length ? keys : [];
  } catch (error) {
    if (error instanceof EvaluationError) return [];
    throw error;
  }
}

/** The arguments without the list: what its items have in common. */
export function besidesItems({ partial }: ToolPlan, args: JsonObject): JsonObject {
  return partial?.at ? withList(args, partial.at, null) : args;
}

/** The call about these items alone. Undefined where the contract does not say where its items are. */
export function callAbout(tool: ToolPlan, args: JsonObject, keys: ReadonlySet<string>): { tool: string; arguments: JsonObject } | undefined {
  const all = itemKeys(tool, args);
  const list = tool.partial?.at ? listAt(args, tool.partial.at) : null;
  if (!tool.partial?.at || list === null || all.length !== list.length || !all.some((key) => keys.has(key))) return undefined;
  return { tool: tool.name, arguments: withList(args, tool.partial.at, list.filter((_, n) => keys.has(all[n] as string))) };
}

/** For the ledger: which items of the call are done now, and which are not. What is not known to have failed counts as done. */
export function itemsDone({ items = [] }: Dossier, outcomes: ItemOutcomes | undefined): { identity: string; done: boolean }[] {
  const undone = new Set(outcomes?.items.filter(({ outcome }) => outcome === 'failed').map(({ key }) => key));
  return items.map(({ key, identity }) => ({ identity, done: !undone.has(key) }));
}

/** Asked after the guard keys were looked up: whoever did an item since then has held one, and the claim of this call fails. */
export async function alreadyDone(parts: Parts, { tool, identity, principal, args }: PermittedCall): Promise<Refusal | undefined> {
  const { items } = identity;
  if (items.length === 0) return undefined;
  const found = new Set(await parts.ledger.doneItems(principal.tenant, items.map((item) => item.identity), tool.identity.windowMs));
  const done = items.map((item) => found.has(item.identity));
  if (!done.includes(true)) return undefined;
  const left = new Set(items.filter((_, n) => !done[n]).map(({ key }) => key));
  const at = (tool.partial?.at ?? []).join('/');
  const rest = callAbout(tool, args, left);
  return refuse('ITEMS_ALREADY_DONE', `${items.length - left.size} of ${items.length} items were done by an earlier call of the same kind. Nothing was sent.${rest ? ' Propose `retry_with`, which names the others alone.' : ''}`, {
    next: left.size === 0 ? 'continue' : 'repair',
    errors: items.flatMap(({ key }, n) => (done[n] ? [{ pointer: `/${at}/${n}`, code: 'already_done', message: `The item \`${key}\` is done already.` }] : [])).slice(0, errorsAtMost),
    ...(rest ? { retryWith: rest } : {}),
  });
}

const errorsAtMost = 20;

function listAt(args: JsonObject, at: readonly string[]): Json[] | null {
  let value: Json | undefined = args;
  for (const name of at) value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  return Array.isArray(value) ? value : null;
}

/** @param list null: without it */
function withList(args: JsonObject, [name = '', ...further]: readonly string[], list: Json[] | null): JsonObject {
  const inner = args[name];
  if (further.length > 0) return isObject(inner) ? { ...args, [name]: withList(inner, further, list) } : args;
  const { [name]: _, ...others } = args;
  return list === null ? others : { ...args, [name]: list };
}

function isObject(value: Json | undefined): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
