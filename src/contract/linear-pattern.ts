/** Regular expressions on RE2's linear-time engine, so that no text of a model can stall the process (a hostile pattern took JS 8.9 s). */
import { RE2JS } from 're2js';

export interface LinearPattern {
  test(text: string): boolean;
  /** Distinct for distinct patterns: ajv keeps one compiled pattern per text of this, and would take any of them for all. */
  toString(): string;
}

/** Patterns stand in contracts, so there are finitely many, and each is asked for several times. */
const known = new Map<string, LinearPattern>();

/** An ECMAScript pattern, searched anywhere in the text as JSON Schema has it. @throws Error for look-around and the like. */
export function linearPattern(pattern: string): LinearPattern {
  const found = known.get(pattern);
  if (found) return found;
  const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
  const fresh = { test: (text: string) => compiled.test(text), toString: () => pattern };
  known.set(pattern, fresh);
  return fresh;
}

/** Undefined when the pattern can run; otherwise why not. */
export function patternProblem(pattern: string): string | undefined {
  try {
    linearPattern(pattern);
    return undefined;
  } catch (thrown) {
    return (thrown as Error).message;
  }
}
