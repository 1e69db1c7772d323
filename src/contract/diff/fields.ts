/** What has changed between two sources of one tool, member by member, and what that means for those who call it. */
import type { Json, JsonObject } from '../../model.js';
import { acts, type ContractDocument, type EntitySource, type ToolSource } from '../document.js';
import type { Path } from '../pointer.js';
import { isSchemaObject } from '../schema-subset.js';
import { type Relation, sameText, schemaChanges } from './schema-change.js';

/**
 * `breaking`: who called rightly before may be wrong now. `behavioural`: the same call is decided, sent, settled or answered
 * differently. `compatible`: neither.
 */
export type Impact = 'breaking' | 'behavioural' | 'compatible';

export interface FieldChange {
  /** Members from the tool down, for instance `args.properties.amount.maximum`. */
  field: string;
  impact: Impact;
  /** Left out where the member is absent. */
  old?: Json;
  now?: Json;
  /** Of a schema: what became of the values that it admits. */
  schema?: Relation;
}

export interface Declared {
  name: string;
  source: ToolSource;
  document: ContractDocument;
}

export function toolChanges(old: Declared, now: Declared): FieldChange[] {
  const changes: FieldChange[] = [];
  const [before, after] = [governed(old), governed(now)];
  for (const member of [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()) {
    if (member === 'args' || member === 'result') changes.push(...ofSchema(member, old.source[member], now.source[member]));
    else differences([member], before[member], after[member], changes);
  }
  return changes;
}

/** Everything that decides what the tool does, apart from its version: its source, its service, its entities as far as they concern it. */
function governed({ name, source, document }: Declared): Record<string, Json> {
  const { version: _, ...members } = source;
  const entities = Object.entries(document.entities ?? {}).filter(([entity, { observe }]) => acts(source, entity) || observe?.tool === name);
  const errorBody = source.error_body ?? document.upstream.error_body;
  const reads = source.errors !== undefined || source.not_found !== undefined;
  return {
    ...(members as unknown as JsonObject),
    ...(errorBody && reads ? { error_body: errorBody } : {}),
    service: document.service,
    entities: Object.fromEntries(entities.map(([entity, declared]) => [entity, concerning(name, declared)])),
  };
}

/** A transition concerns the tool that makes it, and an empty row nobody in particular. */
function concerning(tool: string, entity: EntitySource): JsonObject {
  const rows = Object.entries(entity.transitions ?? {}).flatMap(([state, actions]) => {
    const own = Object.entries(actions).filter(([action]) => action === tool);
    return own.length > 0 || Object.keys(actions).length === 0 ? [[state, Object.fromEntries(own)] as const] : [];
  });
  return { ...entity, transitions: Object.fromEntries(rows) } as unknown as JsonObject;
}

function ofSchema(use: 'args' | 'result', old: JsonObject, now: JsonObject): FieldChange[] {
  const harmful = use === 'args' ? 'narrower' : 'wider';
  return schemaChanges(old, now, use).map((change) => {
    const impact = change.relation === harmful || change.relation === 'other' ? 'breaking' : 'compatible';
    return { ...fieldChange([use, ...change.path], change.old, change.now, impact), schema: change.relation };
  });
}

/** The members that have an order of their own and a name each. */
const keys: Record<string, string> = { preconditions: 'id', errors: 'when' };

/** Down to the members that differ. A list whose items are not alike in number differs as a whole. */
export function differences(path: Path, old: Json | undefined, now: Json | undefined, found: FieldChange[]): void {
  if (sameText(old, now)) return;
  const key = path.length === 1 ? keys[String(path[0])] : undefined;
  const named = key === undefined ? null : byKey(key, old ?? [], now ?? []);
  if (named) {
    differences(path, named.old, named.now, found);
    if (named.order) found.push(fieldChange([...path, 'order'], named.order.old, named.order.now));
  } else if (isSchemaObject(old) && isSchemaObject(now)) {
    for (const name of [...new Set([...Object.keys(old), ...Object.keys(now)])].sort())
      differences([...path, name], own(old, name), own(now, name), found);
  } else if (Array.isArray(old) && Array.isArray(now) && old.length === now.length) {
    old.forEach((item, index) => differences([...path, index], item, now[index], found));
  } else found.push(fieldChange(path, old, now));
}

function own(members: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined;
}

/** Lists as members by name, with the order of those in both where it has changed; null where there are none, or they are not unique. */
function byKey(key: string, old: Json, now: Json): { old: JsonObject; now: JsonObject; order: { old: Json; now: Json } | null } | null {
  const [before, after] = [index(key, old), index(key, now)];
  if (!before || !after || Object.keys({ ...before, ...after }).length === 0) return null;
  const kept = (list: JsonObject, other: JsonObject): string[] => Object.keys(list).filter((name) => Object.hasOwn(other, name));
  const order = { old: kept(before, after), now: kept(after, before) };
  return { old: before, now: after, order: sameText(order.old, order.now) ? null : order };
}

function index(key: string, list: Json): JsonObject | null {
  if (!Array.isArray(list)) return null;
  const names = list.map((item) => (isSchemaObject(item) ? item[key] : undefined));
  // Members that look like numbers would leave the order of the text.
  if (!names.every((name) => typeof name === 'string' && !/^\d+$/.test(name)) || new Set(names).size < names.length) return null;
  return Object.fromEntries(list.map((item, at) => [names[at], item])) as JsonObject;
}

function fieldChange(path: Path, old: Json | undefined, now: Json | undefined, impact = impactOf(path, old, now)): FieldChange {
  return { field: path.join('.'), impact, ...(old === undefined ? {} : { old }), ...(now === undefined ? {} : { now }) };
}

const texts = new Set(['purpose', 'use_when', 'not_when', 'examples', 'counterexamples']);

/** What stands for a member that is not written. */
const implied: Record<string, Json> = {
  expect: 'observed',
  coerce: 'none',
  repeatable: false,
  on_unknown: 'reconcile',
  durability: 'strict',
  untrusted: false,
  'identity.scope': 'intent',
  'readback.lag': '0s',
  ...Object.fromEntries(['touches', 'preconditions', 'errors', 'approval', 'redact', 'public', 'authority'].map((name) => [name, []])),
  ...Object.fromEntries(['observe', 'let', 'bind'].map((name) => [name, {}])),
};

/** What a caller has to know, and no longer does. */
const breaking: Record<string, (old: Json | undefined, now: Json | undefined) => boolean> = {
  effect: () => true,
  expect: (_, now) => now === 'seen',
  coerce: (old) => old === 'lossless',
  repeatable: (old) => old === true,
};

/** A member that is not known to be harmless is behavioural: the safe side. */
function impactOf(path: Path, old: Json | undefined, now: Json | undefined): Impact {
  const field = path.join('.');
  if (texts.has(String(path[0]))) return 'compatible';
  const fallback = implied[field];
  if (fallback !== undefined && sameText(old ?? fallback, now ?? fallback)) return 'compatible';
  return breaking[field]?.(old, now) ? 'breaking' : 'behavioural';
}
