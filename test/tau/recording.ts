/** Real agents' calls, as they were recorded beside this checkout, conversation by conversation. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Edition } from '../../examples/tau-retail/domain/records.js';
import type { Json, JsonObject } from '../../src/model.js';

export const dataFolder = join(process.cwd(), '..', 'shared', 'data', 'tau-retail');
export const recorded = existsSync(join(dataFolder, 'calls.jsonl'));

export interface RecordedCall {
  src: string;
  sim: number;
  seq: number;
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
  calls: RecordedCall[];
}

export function conversations(): Conversation[] {
  const found = new Map<string, Conversation>();
  for (const line of readFileSync(join(dataFolder, 'calls.jsonl'), 'utf8').trim().split('\n')) {
    const call = JSON.parse(line) as RecordedCall;
    const key = `${call.src} ${call.sim}`;
    const conversation = found.get(key) ?? { edition: call.src.split('/')[0] as Edition, calls: [] };
    conversation.calls.push(call);
    found.set(key, conversation);
  }
  return [...found.values()];
}

export function argumentsOf(call: RecordedCall): JsonObject {
  return JSON.parse(call.args) as JsonObject;
}

export function answerOf({ result }: RecordedCall): Json {
  try {
    return JSON.parse(result ?? 'null') as Json;
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

const injected = /^Error: 503 /;

/** A failure that the recording's harness made up. */
export function isInjected({ error }: RecordedCall): boolean {
  return injected.test(error ?? '');
}

/** Several items modified at once: tau2's environment gives each of them what the last one costs. */
export function isKnownFault({ src, name, args, rejected }: RecordedCall): boolean {
  return src.startsWith('tau2/') && name === 'modify_pending_order_items' && !rejected && (JSON.parse(args) as { item_ids: unknown[] }).item_ids.length > 1;
}
