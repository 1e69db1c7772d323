/** What a model's turn is to us whichever provider made it, and what a provider wants back. */
import { type Refusal, refuse } from '../../errors.js';
import type { Answer, Json, JsonObject } from '../../model.js';
import { parseStrict } from '../../strict-json.js';

export interface ProviderCall {
  /** As it came, whatever it is; null: there was none. */
  id: string | null;
  name: Json | undefined;
  arguments: Json | undefined;
  /** RFC 6901, into the body. */
  argumentsAt: string;
  /** Why no contract can admit it, for the model. */
  unusable?: string;
  /** The type of the item or block that it came in: some want a result of another type. */
  kind: string;
  /** Anthropic: of a tool that belongs to a set of the provider's. */
  toolset?: string;
}

export interface ProviderTurn {
  /** The provider's id of the response; null: the host gave the message alone. */
  id: string | null;
  /** Why the turn ended before the model had finished it; null: it is whole. */
  cut: string | null;
  calls: ProviderCall[];
  /** Calls of tools that the host has to run itself, or should not offer; Callgate has no answer to them. */
  unanswered: { type: string; id: string | null }[];
}

export interface Reply {
  call: ProviderCall;
  /** The provider's id, or the one that was minted in its place. */
  id: string;
  answer: Answer;
  /** The answer as the model is told it. */
  content: string;
}

export interface Dialect {
  readonly name: string;
  /** What the body has beside the members that every dialect has. */
  readonly members: readonly string[];
  read(body: JsonObject): ProviderTurn | Refusal;
  /** The messages to append, in the provider's own form. */
  write(replies: readonly Reply[]): object;
}

/** Far more than may run. Beyond it the answer would be hundreds of times as large as the turn, and that is no model's turn any more. */
const maxCalls = 256;

export function moreThanATurn(count: number): Refusal | undefined {
  return count > maxCalls ? refuse('TOO_MANY_CALLS', `A turn may hold ${maxCalls} calls and this one holds ${count}. None of them ran.`) : undefined;
}

export function objectOf(value: Json | undefined): JsonObject | null {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : null;
}

export function listOf(value: Json | undefined): Json[] | null {
  return Array.isArray(value) ? value : null;
}

export function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

/**
 * Models that encode their arguments twice (case-26): the text is the provider's own form, and a text within it is unwrapped once. What
 * it holds is for the gate to read.
 */
export function argumentsText(value: Json | undefined): Json | undefined {
  if (typeof value !== 'string' || !/^\s*"/.test(value)) return value;
  const parsed = parseStrict(value, { maxDepth: 0 });
  return parsed.ok ? parsed.value : value;
}

/** @param expected what belongs there, to follow "Send" */
export function wrongAt(pointer: string, expected: string): Refusal {
  return refuse('INVALID_ENVELOPE', `\`${pointer}\` is not what this path takes: send ${expected}.`, {
    errors: [{ pointer, code: 'unusable', message: `Send ${expected}.` }],
  });
}

/** Only an ending that says so is a whole turn: what else a provider names is one that we cannot take for finished. */
export function cutBy(ending: Json | undefined, whole: readonly string[], pointer: string): { cut: string | null } | Refusal {
  if (ending === undefined) return wrongAt(pointer, 'how the turn ended, as the provider gave it');
  if (typeof ending === 'string' && whole.includes(ending)) return { cut: null };
  return { cut: typeof ending === 'string' ? ending.slice(0, maxReason) : 'unfinished' };
}

const maxReason = 64;
