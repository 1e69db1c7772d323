/** Reads a bounded JSON object from a request. */
import type { IncomingMessage } from 'node:http';
import { Malformed } from './answer.js';

const limitBytes = 64 * 1024;

/** An empty body is `{}`. @throws Malformed: 413 beyond 64 KiB, 400 for what is not one JSON object. */
export async function readObject(req: IncomingMessage): Promise<Record<string, unknown>> {
  const bytes = await readBounded(req);
  if (bytes.length === 0) return {};
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new Malformed('the body is not well-formed JSON', 400, 'BAD_JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Malformed('the body must be one JSON object');
  return value as Record<string, unknown>;
}

/** Reads to the end even beyond the limit, keeping nothing: a client that is still writing would not see the refusal. */
async function readBounded(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= limitBytes) chunks.push(chunk);
  }
  if (size > limitBytes) throw new Malformed(`the body is larger than ${limitBytes} bytes`, 413, 'TOO_LARGE');
  return Buffer.concat(chunks);
}
