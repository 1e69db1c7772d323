/**
 * What the receipts of one tool say again and again, for the ledger to leave out of each (docs/receipts.md, "How contents are kept"). Made of the
 * contract and the version of the policies alone: what is erased from receipts must not stay in it, so nothing of a call may ever enter.
 *
 * Equal contracts make equal bytes, whichever replica makes them. The most likely stands last, where it is nearest to what is written.
 */
import { canonicalText, sha256 } from '../canonical.js';
import type { ToolPlan } from '../contract/plan.js';
import { dispositions, type Json, type JsonObject } from '../model.js';
import { nextActionMeanings } from '../next-actions.js';
import type { PolicyEngine } from '../policy/decision.js';
import type { ReceiptDictionary } from './ports.js';

/** Of each part, in UTF-16 units, and of the whole, in bytes: a large schema or many policies are not to push out what every receipt has. */
const longestPart = 1_024;
const longest = 6 * 1024;
const deepest = 4;
/** In the place of a text or number that only a call knows. */
const unknown = '';

const made = new WeakMap<ToolPlan, Map<string, ReceiptDictionary>>();

export function dictionaryFor(tool: ToolPlan, policy: PolicyEngine): ReceiptDictionary {
  const versions = made.get(tool) ?? new Map<string, ReceiptDictionary>();
  made.set(tool, versions);
  const known = versions.get(policy.version);
  if (known) return known;
  const bytes = Buffer.from(textFor(tool, policy)).subarray(-longest);
  const dictionary = { digest: sha256(bytes), bytes };
  versions.set(policy.version, dictionary);
  return dictionary;
}

function textFor(tool: ToolPlan, policy: PolicyEngine): string {
  return [vocabulary, ...[...named(tool), ...policy.idsFor(tool.name)].map((text) => `"${text}",`), ...refusals(tool), ...otherEffects(tool), effect(tool), decision(tool, policy)]
    .map((part) => part.slice(0, longestPart).toWellFormed()).join('\n');
}

const vocabulary = [
  ...[...dispositions, ...Object.keys(nextActionMeanings)].map((word) => `"${word}"`), '"not_committed"', '"sha256:', 'true', 'false', 'null', '"kind":"proposals"',
  '"of":"session","per":"session"', '"status":422', '"status":409', '"omitted":true', '"reason":"timeout","sent":true,"status":null', '«redacted:',
].join(',');

/** Enumerated values of its arguments and results, and what its rules are called. */
function named(tool: ToolPlan): string[] {
  const rules = [...tool.relations, ...tool.preconditions].flatMap(({ id, otherwise }) => [id, otherwise.code, otherwise.message ?? '']);
  return [...new Set([...enumerated(tool.argsSchema, 0), ...enumerated(tool.resultSchema, 0), ...(tool.entity?.states ?? []), ...rules])].filter((text) => text !== '');
}

function enumerated(schema: Json | undefined, depth: number): string[] {
  if (!isObject(schema) || depth > deepest) return [];
  const values = [...(Array.isArray(schema['enum']) ? schema['enum'] : []), schema['const']].filter((value) => typeof value === 'string');
  return [...values, ...Object.values(propertiesOf(schema)).flatMap((each) => enumerated(each, depth + 1)), ...enumerated(schema['items'], depth + 1)];
}

function refusals(tool: ToolPlan): string[] {
  return tool.preconditions.map(({ otherwise }) => canonicalText({
    refusal: { code: otherwise.code, detail: otherwise.message ?? unknown, errors: [], problem: 'precondition_failed', stage: 'validate' },
  }));
}

/** What an effect says seldom. */
function otherEffects(tool: ToolPlan): string[] {
  const readback = tool.readback && canonicalText({ readback: { arguments: sampleOf(tool.readback.tool.argsSchema), result: sampleOf(tool.readback.tool.resultSchema), tool: tool.readback.tool.name } });
  return readback ? [readback] : [];
}

/** As `effectReceipt` puts it together, without what the ledger keeps apart. */
function effect(tool: ToolPlan): string {
  return canonicalText({
    attempts: [{ ms: 1.5, number: 1, outcome: 'committed', reason: null, sent: true, status: 200 }],
    call_id: unknown, contract: { version: tool.version, digest: tool.digest }, effect: tool.effect, idempotency_key: 'op_', generation: 1, verified: false, result: sampleOf(tool.resultSchema),
    readback: null, states: tool.entity ? { [`${tool.entity.name}:`]: tool.entity.states.at(-1) ?? unknown } : {}, reason: null, corrects: null,
  });
}

/** As `decisionReceipt` puts it together. */
function decision(tool: ToolPlan, policy: PolicyEngine): string {
  return canonicalText({
    actor: { principal: unknown, roles: ['agent'], subject: unknown }, approval: null, arguments: sampleOf(tool.argsSchema),
    budget: tool.effect === 'none' ? null : { kind: 'executions', of: 'principal', per: 'day', limit: 1000, used: 0 },
    call_id: unknown, contract: { version: tool.version, digest: tool.digest }, generation: 1,
    observations: [...(tool.entity?.observation ? [tool.entity.observation] : []), ...tool.observations].map(({ name, tool: source, version }) => ({
      age_ms: 1, ms: 1.5, name, source: source.name, version: version ? '"1"' : null,
    })),
    policy: { version: policy.version, determining: [...policy.idsFor(tool.name)], errors: [], denied: null },
    purpose: unknown, refusal: null, repaired: [], session_untrusted: false, transition: transition(tool),
  });
}

function transition({ entity, name }: ToolPlan): JsonObject | null {
  if (!entity) return null;
  const [state, actions] = Object.entries(entity.transitions).findLast(([, each]) => Object.hasOwn(each, name)) ?? [null, null];
  return { entity: `${entity.name}:`, state, action: name, next: actions?.[name] ?? null };
}

/** A value of the schema's form, of which the names and whatever can have one value only are right. */
function sampleOf(schema: Json | undefined, depth = 0): Json {
  if (!isObject(schema) || depth > deepest) return null;
  if (schema['const'] !== undefined) return schema['const'];
  if (Array.isArray(schema['enum'])) return schema['enum'][0] ?? null;
  const type = Array.isArray(schema['type']) ? schema['type'][0] : schema['type'];
  switch (type) {
    case 'object': return Object.fromEntries(Object.entries(propertiesOf(schema)).map(([name, each]) => [name, sampleOf(each, depth + 1)]));
    case 'array': return [sampleOf(schema['items'], depth + 1)];
    case 'string': return unknown;
    case 'integer': case 'number': return 1;
    case 'boolean': return true;
    default: return null;
  }
}

function propertiesOf(schema: JsonObject): JsonObject {
  return isObject(schema['properties']) ? schema['properties'] : {};
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
