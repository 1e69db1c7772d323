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
import { toCedarRecord } from './cedar-values.js';
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
interface PolicySlice { name: string; reads: Footprint }

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
  return { version, decide, judge: decide };
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
  return { name, reads: footprintOf(applicable.map(({ json }) => json)) };
}

const rememberedAtMost = 1_000;
const rememberedBytesAtMost = 2_048;

/** A decision depends on nothing but the call, so an equal call may have the same answer without asking again. */
function remembered(decisions: Map<string, PolicyDecision>, { name, reads }: PolicySlice, request: PolicyRequest, schema: PolicySchema): PolicyDecision {
  let call: StatefulAuthorizationCall;
  try {
    call = cedarCall(name, reads, request, schema);
  } catch (error) {
    return { allowed: false, determining: [], errors: [error instanceof Error ? error.message : String(error)] };
  }
  const key = JSON.stringify(call);
  const known = decisions.get(key);
  if (known) return known;
  const decision = ask(call);
  if (decision.allowed && key.length <= rememberedBytesAtMost) {
    if (decisions.size >= rememberedAtMost) decisions.delete(decisions.keys().next().value ?? '');
    decisions.set(key, decision);
  }
  return decision;
}

/** Exported for the proof that it is valid against the schema. */
export function cedarCall(name: string, reads: Footprint, request: PolicyRequest, schema: PolicySchema): StatefulAuthorizationCall {
  const principal = { type: 'Principal', id: request.principal.id };
  // An id that no policy reads is left out, so that one decision serves all resources with equal attributes.
  const resource = { type: request.resource.type, id: reads.resourceId ? request.resource.id : '' };
  const { tenant, roles } = request.principal;
  const aboutTool = request.resource.type === 'Tool';
  const args = aboutTool ? nothing : (schema.actions.get(request.action)?.args ?? nothing);
  const seen = aboutTool ? schema.tool : (schema.entities.get(request.resource.type) ?? nothing);
  return {
    preparsedPolicySetId: name,
    principal,
    action: { type: 'Action', id: request.action },
    resource,
    context: { purpose: request.purpose ?? '', untrusted: request.untrusted, args: toCedarRecord('args', request.args, args, reads.args) },
    entities: [
      { uid: principal, attrs: { tenant, subject: request.subject ?? '', roles: [...roles] }, parents: [] },
      { uid: resource, attrs: toCedarRecord('resource', request.resource.attributes, seen, reads.resource), parents: [] },
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
