/** What real agents did with the store, and what the benchmark answered: one line per call, conversation by conversation, turn by turn. */
import { readFileSync } from 'node:fs';
import type { Edition } from '../domain/records.js';

export interface RecordedCall {
  /** `tau1/…` or `tau2/…`, and which agent it was. */
  src: string;
  sim: number;
  seq: number;
  turn: number;
  pos: number;
  /** As the provider gave it; providers repeat ids. */
  id: string;
  name: string;
  /** The text that the model emitted. */
  args: string;
  write: boolean;
  rejected: boolean;
  error: string | null;
  /** JSON, or a bare text. */
  result: string | null;
}

export interface Conversation {
  edition: Edition;
  name: string;
  calls: RecordedCall[];
}

/** @throws Error naming the line that is no call of one of the two editions. */
export function readConversations(file: string): Conversation[] {
  const found = new Map<string, Conversation>();
  const lines = readFileSync(file, 'utf8').split('\n');
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue;
    const call = readCall(line, `${file}:${index + 1}`);
    const name = `${call.src} ${call.sim}`;
    const conversation = found.get(name) ?? { edition: call.src.split('/')[0] as Edition, name, calls: [] };
    conversation.calls.push(call);
    found.set(name, conversation);
  }
  return [...found.values()];
}

function readCall(line: string, place: string): RecordedCall {
  let call: RecordedCall;
  try {
    call = JSON.parse(line) as RecordedCall;
  } catch {
    throw new Error(`${place} is not JSON`);
  }
  if (!/^tau[12]\//.test(String(call.src))) throw new Error(`${place}: \`src\` begins with tau1/ or tau2/, which says the version of the domain`);
  if (typeof call.name !== 'string' || typeof call.args !== 'string') throw new Error(`${place}: \`name\` and \`args\` are texts`);
  return call;
}

/** The calls that the model made in one go, in their order. */
export function turnsOf({ calls }: Conversation): RecordedCall[][] {
  const turns = new Map<number, RecordedCall[]>();
  for (const call of calls) turns.set(call.turn, [...(turns.get(call.turn) ?? []), call]);
  return [...turns.values()];
}

/** Null where the model emitted no JSON object. */
export function argumentsOf({ args }: RecordedCall): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(args);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

export function answerOf({ result }: RecordedCall): unknown {
  try {
    return JSON.parse(result ?? 'null');
  } catch {
    return result;
  }
}

/** Recorded amounts carry binary noise. */
export function toTheCent(value: unknown): unknown {
  if (typeof value === 'number') return Math.round(value * 100) / 100;
  if (Array.isArray(value)) return value.map(toTheCent);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toTheCent(member)]));
}

export function place({ src, sim, seq, name }: RecordedCall): string {
  return `${src} ${sim}/${seq} ${name}`;
}

/** A failure that the recording's harness made up. */
export function isInjected({ error }: RecordedCall): boolean {
  return /^Error: 503 /.test(error ?? '');
}

/** Several items modified at once: tau2's environment gives each of them what the last one costs. */
export function isKnownFault(call: RecordedCall): boolean {
  const items = argumentsOf(call)?.['item_ids'];
  return call.src.startsWith('tau2/') && call.name === 'modify_pending_order_items' && !call.rejected && Array.isArray(items) && items.length > 1;
}
