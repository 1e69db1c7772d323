/** Policy texts, read once: each policy with its place, and everything that is wrong with how they are written. */
import { type DetailedError, policySetTextToParts, policyToJson, type PolicyJson } from '@cedar-policy/cedar-wasm/nodejs';

export interface PolicyText { file: string; text: string }
export interface PolicyProblem { file: string; line: number; column: number; message: string }

export interface Policy extends PolicyText {
  id: string;
  json: PolicyJson;
  line: number;
  column: number;
  /** Where a place in this policy's text, counted in bytes as Cedar does, is in its file. */
  placeOf(offset: number): { line: number; column: number };
}

/**
 * A policy is known by its `@id("…")`, else by `file:line:column`. All problems of all files come back together; Cedar itself stops at the
 * first error of a file.
 */
export function readPolicies(texts: readonly PolicyText[]): { policies: Policy[]; problems: PolicyProblem[] } {
  const read = texts.map(readFile);
  const policies = read.flatMap((file) => file.policies);
  return { policies, problems: [...read.flatMap((file) => file.problems), ...repeatedIds(policies)] };
}

function readFile({ file, text }: PolicyText): { policies: Policy[]; problems: PolicyProblem[] } {
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
    return {
      file, text: part, line, column, id: parsed.json.annotations?.id || `${file}:${line}:${column}`, json: parsed.json,
      placeOf: (offset) => positionAt(text, start + characters(part, offset)),
    };
  });
  return { policies, problems };
}

function problemOf(file: string, text: string, error: DetailedError): PolicyProblem {
  const label = error.sourceLocations?.[0];
  const hints = [label?.label, error.help].filter((hint) => hint !== null && hint !== undefined && hint !== '');
  return { file, ...positionAt(text, label ? characters(text, label.start) : 0), message: [error.message, ...hints].join('; ') };
}

/** Cedar counts bytes of UTF-8, JavaScript UTF-16 units. */
function characters(text: string, bytes: number): number {
  return Buffer.from(text).subarray(0, bytes).toString().length;
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
