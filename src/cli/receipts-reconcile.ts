/**
 * `callgate receipts reconcile`: the books of a service against the receipts. What the service saw under a key that no receipt has did not come
 * through the gateway; what a receipt says took effect and the service does not know did not reach it, or was lost there.
 */
import { readLine } from '../chain/verify.js';
import type { Json, JsonObject } from '../model.js';
import { linesOf } from './lines-of.js';

interface Effect { key: string; sequence: number; receipt: string; tool: string; outcome: string | null }

export async function reconcileReceipts(file: string, seenFile: string, tools: readonly string[]): Promise<number> {
  const seen = await keysSeen(seenFile);
  const { operations, effects } = await read(file);
  const foreign = [...seen].filter((key) => !operations.has(key));
  const asked = [...effects.values()].filter(({ tool }) => tools.length === 0 || tools.includes(tool));
  const unknown = asked.filter(({ key, outcome }) => (outcome === 'committed' || outcome === 'accepted') && !seen.has(key));
  for (const key of foreign) console.log(`not through the gateway: ${key}`);
  for (const { key, tool, receipt, sequence, outcome } of unknown) console.log(`unknown to the service: ${key} (${tool}, ${outcome}; receipt ${receipt}, sequence ${sequence})`);
  console.log(`${seen.size} keys seen, ${asked.length} operations with effect receipts; ${foreign.length} not through the gateway, ${unknown.length} unknown to the service`);
  return foreign.length + unknown.length === 0 ? 0 : 1;
}

/** A key a line, or JSON objects with a member `key` or `idempotency_key`. */
async function keysSeen(file: string): Promise<Set<string>> {
  const seen = new Set<string>();
  let number = 0;
  for await (const line of linesOf(file)) {
    number++;
    const text = line.trim();
    if (text !== '') seen.add(text.startsWith('{') ? keyIn(text, `${file}, line ${number}`) : text);
  }
  return seen;
}

function keyIn(text: string, place: string): string {
  let value: { key?: unknown; idempotency_key?: unknown };
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    throw new Error(`${place}: it begins as JSON and is none`);
  }
  const key = value.key ?? value.idempotency_key;
  if (typeof key !== 'string') throw new Error(`${place}: it has no text under \`key\` or \`idempotency_key\``);
  return key;
}

/** The last effect receipt of an operation is what holds. The key on its attempts is the id of the operation, or of an earlier generation of it. */
async function read(file: string): Promise<{ operations: Set<string>; effects: Map<string, Effect> }> {
  const operations = new Set<string>();
  const effects = new Map<string, Effect>();
  let number = 0;
  for await (const text of linesOf(file)) {
    number++;
    const line = readLine(text);
    if (!line) throw new Error(`${file}, line ${number}: it is not one of an export; verify the file first`);
    if (line.type !== 'receipt') continue;
    const { header, body } = line;
    if (header.operation_id !== null) operations.add(header.operation_id);
    const content = body === null || header.kind !== 'effect' ? null : JSON.parse(body) as JsonObject;
    if (content === null || content['effect'] === 'none') continue;
    const key = textOr(content['idempotency_key'], header.operation_id ?? '');
    operations.add(key);
    effects.set(key, { key, sequence: header.sequence, receipt: header.id, tool: header.tool, outcome: header.outcome });
  }
  return { operations, effects };
}

function textOr(value: Json | undefined, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}
