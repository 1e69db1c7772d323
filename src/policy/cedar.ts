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
 *   context    { purpose ("" when there is none), args }
 * How JSON becomes Cedar values: cedar-values.ts.
 */
import { createHash } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import {
  policySetTextToParts, policyToJson, preparsePolicySet, statefulIsAuthorized,
  type DetailedError, type PolicyJson, type StatefulAuthorizationCall,
} from '@cedar-policy/cedar-wasm/nodejs';
import { type CedarRecord, toCedarRecord } from './cedar-values.js';
import type { PolicyDecision, PolicyEngine, PolicyRequest } from './decision.js';
import { actionsOf, type Footprint, footprintOf } from './footprint.js';

/**
 * Node 20 (V8 11.3) ends the whole process with "unreachable code" when it deoptimizes a function into which it had inlined a call of a
 * WebAssembly function that returns a reference, as Cedar's do: seen in three of six runs of 20,000 decisions. Without the inlining: none.
 */
setFlagsFromString('--no-turbo-inline-js-wasm-calls');

export interface PolicyText { file: string; text: string }
export interface PolicyProblem { file: string; line?: number; column?: number; message: string }

interface Policy extends PolicyText { id: string; line: number; column: number; json: PolicyJson }

/**
 * Parses every policy once. A policy is known by its `@id("…")`, else by `file:line:column`.
 * All problems of all files come back together; Cedar itself stops at the first error of a file.
 */
export function loadPolicies(texts: readonly PolicyText[]): { engine: PolicyEngine } | { problems: PolicyProblem[] } {
  const policies: Policy[] = [];
  const problems: PolicyProblem[] = [];
  for (const text of texts) {
    const read = readPolicies(text);
    policies.push(...read.policies);
    problems.push(...read.problems);
  }
  problems.push(...repeatedIds(policies));
  return problems.length > 0 ? { problems } : { engine: createEngine(versionOf(texts), policies) };
}

function versionOf(texts: readonly PolicyText[]): string {
  const sorted = texts.map(({ file, text }) => [file, text]).sort();
  return `sha256:${createHash('sha256').update(JSON.stringify(sorted)).digest('hex')}`;
}

function readPolicies({ file, text }: PolicyText): { policies: Policy[]; problems: PolicyProblem[] } {
  const parts = policySetTextToParts(text);
  if (parts.type === 'failure') return { policies: [], problems: parts.errors.map((error) => problemOf(file, text, error)) };
  const problems = parts.policy_templates.map((template) => ({
    file, ...positionAt(text, text.indexOf(template)),
    message: 'a template (?principal, ?resource) is never linked here and would decide nothing; write a policy',
  }));
  // parts come in no order of the file; equal texts are told apart by searching on from the last one found
  const found = new Map<string, number>();
  const policies = parts.policies.map((part): Policy => {
    const start = text.indexOf(part, (found.get(part) ?? -1) + 1);
    found.set(part, start);
    const { line, column } = positionAt(text, start);
    const parsed = policyToJson(part);
    if (parsed.type === 'failure') throw new Error(`Cedar cannot read back its own policy at ${file}:${line}`);
    return { file, text: part, line, column, id: parsed.json.annotations?.id || `${file}:${line}:${column}`, json: parsed.json };
  });
  return { policies, problems };
}

function problemOf(file: string, text: string, error: DetailedError): PolicyProblem {
  const label = error.sourceLocations?.[0];
  const hints = [label?.label, error.help].filter((hint) => hint !== null && hint !== undefined && hint !== '');
  const message = [error.message, ...hints].join('; ');
  // Cedar counts bytes of UTF-8, JavaScript UTF-16 units
  return label ? { file, ...positionAt(text, Buffer.from(text).subarray(0, label.start).toString().length), message } : { file, message };
}

function positionAt(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, Math.max(offset, 0)).split('\n');
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 };
}

function repeatedIds(policies: readonly Policy[]): PolicyProblem[] {
  const first = new Map<string, Policy>();
  return policies.toSorted((a, b) => a.file.localeCompare(b.file) || a.line - b.line || a.column - b.column).flatMap((policy) => {
    const earlier = first.get(policy.id);
    first.set(policy.id, earlier ?? policy);
    return earlier ? [{ file: policy.file, line: policy.line, column: policy.column, message: `@id("${policy.id}") is taken by ${earlier.file}:${earlier.line}` }] : [];
  });
}

/** The policies that can apply to one action, parsed under a name, and what they read. */
interface PolicySlice { name: string; reads: Footprint }

/**
 * Cedar evaluates every policy of a set (500 policies: 1.6 ms), so each tool that some policy names gets a set of its
 * own. Leaving out a policy whose head names other actions changes no decision: its head is false and cannot fail.
 */
function createEngine(version: string, policies: readonly Policy[]): PolicyEngine {
  const named = new Set(policies.flatMap((policy) => actionsOf(policy.json) ?? []));
  const slices = new Map([...named].map((action) => [action, slice(`${version}/${action}`, policies, action)]));
  const rest = slice(version, policies, null);
  const decisions = new Map<string, PolicyDecision>();
  return {
    version,
    decide(request) {
      const answer = remembered(decisions, slices.get(request.action) ?? rest, request);
      return { allowed: answer.allowed, determining: [...answer.determining], errors: [...answer.errors] };
    },
  };
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
function remembered(decisions: Map<string, PolicyDecision>, { name, reads }: PolicySlice, request: PolicyRequest): PolicyDecision {
  let call: StatefulAuthorizationCall;
  try {
    call = cedarCall(name, reads, request);
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

function cedarCall(name: string, reads: Footprint, request: PolicyRequest): StatefulAuthorizationCall {
  const principal = { type: 'Principal', id: request.principal.id };
  // An id that no policy reads is left out, so that one decision serves all resources with equal attributes.
  const resource = { type: request.resource.type, id: reads.resourceId ? request.resource.id : '' };
  const attributes: CedarRecord = {
    tenant: request.principal.tenant, subject: request.subject ?? '', roles: [...request.principal.roles],
  };
  return {
    preparsedPolicySetId: name,
    principal,
    action: { type: 'Action', id: request.action },
    resource,
    context: { purpose: request.purpose ?? '', args: toCedarRecord('args', request.args, reads.args) },
    entities: [
      { uid: principal, attrs: attributes, parents: [] },
      { uid: resource, attrs: toCedarRecord('resource', request.resource.attributes, reads.resource), parents: [] },
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
