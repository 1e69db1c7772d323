/** The members of an upstream's error that a contract lets through (`public`). Nothing else that it said is ever told. */
import type { ToolPlan } from '../contract/plan.js';
import type { Json, JsonObject } from '../model.js';
import type { Parts } from './parts.js';
import { redacted } from './receipts.js';

const maxTextLength = 256;

/** Numbers, booleans and short text, redacted like everything that is written down; undefined where there is none. */
export function shownOf(parts: Parts, tool: ToolPlan, args: JsonObject, body: Json): JsonObject | undefined {
  const shown = Object.fromEntries(tool.public.flatMap((path): [string, Json][] => {
    const value = plain(at(body, path.split('.')));
    return value === undefined ? [] : [[path, value]];
  }));
  if (Object.keys(shown).length === 0) return undefined;
  return redacted(parts, shown, tool.redact, args);
}

function at(value: Json | undefined, path: readonly string[]): Json | undefined {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, name)) return undefined;
  return at(value[name], rest);
}

/** Without what only a terminal reads, and without half a character at the cut. */
function plain(value: Json | undefined): Json | undefined {
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value !== 'string') return undefined;
  const text = [...value.replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, ' ')];
  return text.length <= maxTextLength ? text.join('') : `${text.slice(0, maxTextLength).join('')}…`;
}
