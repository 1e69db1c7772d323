/**
 * Policies in Cedar: default deny, and a policy that fails to evaluate denies, because Cedar itself skips an erroring
 * `forbid` and would let the request pass.
 *
 * What a policy sees:
 *   principal  Principal::"<id>"  { tenant, subject ("" when there is none), roles (a set) }
 *   action     Action::"<tool>"
 *   resource   Tool::"<tool>" when the question is whether the tool may be used at all; else, for instance,
 *              order::"O-417" with the attributes that were observed. Both questions are asked of the same policies, so
 *              a policy that reads attributes says `resource is order`.
 *   context    { purpose ("" when there is none), untrusted, args }
 * What of it policies may rest on, and in which types: schema.ts. How JSON becomes Cedar values: cedar-values.ts.
 */
import { createHash } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { preparsePolicySet, statefulIsAuthorized, type StatefulAuthorizationCall } from '@cedar-policy/cedar-wasm/nodejs';
import { type CedarRecord, toCedarRecord } from './cedar-values.js';
import type { PolicyDecision, PolicyEngine, PolicyRequest } from './decision.js';
import { actionsOf, type Footprint, footprintOf } from './footprint.js';
import { type Policy, type PolicyText, readPolicies } from './read.js';
import { nothing, type PolicySchema } from './schema.js';

/**
 * Node 20 (V8 11.3) ends the whole process with "unreachable code" when it deoptimizes a function into which it had inlined a call of a
 * WebAssembly function that returns a reference, as Cedar's do: seen in three of six runs of 20,000 decisions. Without the inlining: none.
 */
setFlagsFromString('--no-turbo-inline-js-wasm-calls');

/**
 * Policies that compiled with their contracts, parsed once.
 * @param schema what requests are put together by: a policy that is valid against it cannot fail on one
 * @throws Error for texts that cannot be read
 */
export function loadPolicies(texts: readonly PolicyText[], schema: PolicySchema): PolicyEngine {
  const { policies, problems } = readPolicies(texts);
  const [first] = problems;
  if (first) throw new Error(`${first.file}:${first.line}:${first.column} ${first.message}`);
  return createEngine(versionOf(texts), policies, schema);
}

function versionOf(texts: readonly PolicyText[]): string {
  const sorted = texts.map(({ file, text }) => [file, text]).sort();
  return `sha256:${createHash('sha256').update(JSON.stringify(sorted)).digest('hex')}`;
}

/** The policies that can apply to one action, parsed under a name, and what they read. */
interface PolicySlice { name: string; ids: readonly string[]; reads: Footprint }

/**
 * Cedar evaluates every policy of a set (500 policies: 1.6 ms), so each tool that some policy names gets a set of its
 * own. Leaving out a policy whose head names other actions changes no decision: its head is false and cannot fail.
 */
function createEngine(version: string, policies: readonly Policy[], schema: PolicySchema): PolicyEngine {
  const named = new Set(policies.flatMap((policy) => actionsOf(policy.json) ?? []));
  const slices = new Map([...named].map((action) => [action, slice(`${version}/${action}`, policies, action)]));
  const rest = slice(version, policies, null);
  const decisions = new Map<string, PolicyDecision>();
  const decide = (request: PolicyRequest): PolicyDecision => {
    const answer = remembered(decisions, slices.get(request.action) ?? rest, request, schema);
    return { allowed: answer.allowed, determining: [...answer.determining], errors: [...answer.errors] };
  };
  return { version, idsFor: (action) => (slices.get(action) ?? rest).ids, decide, judge: decide };
}

/**
 * The cache of parsed sets is Cedar's own, per thread, and is never emptied: the version in the name makes equal texts
 * share one entry over reloads.
 */
function slice(name: string, policies: readonly Policy[], action: string | null): PolicySlice {
  const applicable = policies.filter(({ json }) => {
    const actions = actionsOf(json);
    return actions === null || (action !== null && actions.includes(action));
  });
  const parsed = preparsePolicySet(name, { staticPolicies: Object.fromEntries(applicable.map(({ id, text }) => [id, text])) });
  if (parsed.type === 'failure') throw new Error(`Cedar refuses a set of policies it has read one by one: ${parsed.errors[0]?.message}`);
  return { name, ids: applicable.map(({ id }) => id), reads: footprintOf(applicable.map(({ json }) => json)) };
}

const rememberedAtMost = 1_000;
const rememberedBytesAtMost = 2_048;

/** A decision depends on nothing but what is asked, so an equal question may have the same answer without asking again. */
function remembered(decisions: Map<string, PolicyDecision>, slice: PolicySlice, request: PolicyRequest, schema: PolicySchema): PolicyDecision {
  let asked: Asked;
  try {
    asked = whatIsAsked(slice.reads, request, schema);
  } catch (error) {
    return { allowed: false, determining: [], errors: [error instanceof Error ? error.message : String(error)] };
  }
  const key = JSON.stringify([slice.name, ...asked]);
  const known = decisions.get(key);
  if (known) return known;
  const decision = ask(callOf(slice.name, asked));
  if (decision.allowed && key.length <= rememberedBytesAtMost) {
    if (decisions.size >= rememberedAtMost) decisions.delete(decisions.keys().next().value ?? '');
    decisions.set(key, decision);
  }
  return decision;
}

/** All that a decision depends on, without the names around it: principal (id, tenant, subject, roles), action, resource (type, id), purpose, trust, arguments, attributes. */
type Asked = readonly [
  id: string, tenant: string, subject: string, roles: readonly string[], action: string, type: string, resource: string, purpose: string, untrusted: boolean,
  args: CedarRecord, attributes: CedarRecord,
];

/** @throws UnrepresentableValue */
function whatIsAsked(reads: Footprint, { principal, subject, purpose, action, resource, args, untrusted }: PolicyRequest, schema: PolicySchema): Asked {
  const aboutTool = resource.type === 'Tool';
  const named = aboutTool ? nothing : (schema.actions.get(action)?.args ?? nothing);
  const seen = aboutTool ? schema.tool : (schema.entities.get(resource.type) ?? nothing);
  return [
    // An id that no policy reads is left out, so that one decision serves all resources with equal attributes.
    principal.id, principal.tenant, subject ?? '', principal.roles, action, resource.type, reads.resourceId ? resource.id : '', purpose ?? '', untrusted,
    toCedarRecord('args', args, named, reads.args), toCedarRecord('resource', resource.attributes, seen, reads.resource),
  ];
}

/** Exported for the proof that it is valid against the schema. */
export function cedarCall(name: string, reads: Footprint, request: PolicyRequest, schema: PolicySchema): StatefulAuthorizationCall {
  return callOf(name, whatIsAsked(reads, request, schema));
}

function callOf(name: string, [id, tenant, subject, roles, action, type, resourceId, purpose, untrusted, args, attributes]: Asked): StatefulAuthorizationCall {
  const principal = { type: 'Principal', id };
  const resource = { type, id: resourceId };
  return {
    preparsedPolicySetId: name,
    principal,
    action: { type: 'Action', id: action },
    resource,
    context: { purpose, untrusted, args },
    entities: [
      { uid: principal, attrs: { tenant, subject, roles: [...roles] }, parents: [] },
      { uid: resource, attrs: attributes, parents: [] },
    ],
  };
}

function ask(call: StatefulAuthorizationCall): PolicyDecision {
  try {
    const answer = statefulIsAuthorized(call);
    if (answer.type === 'failure') return { allowed: false, determining: [], errors: answer.errors.map(({ message }) => message) };
    const { decision, diagnostics } = answer.response;
    const errors = diagnostics.errors.map(({ policyId, error }) => `${policyId}: ${error.message}`);
    return { allowed: decision === 'allow' && errors.length === 0, determining: diagnostics.reason, errors };
  } catch (error) {
    // thrown across the wasm boundary, for instance for a lone surrogate or nesting beyond 128
    return { allowed: false, determining: [], errors: [error instanceof Error ? error.message : String(error)] };
  }
}
