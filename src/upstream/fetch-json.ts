/** A small JSON document that the gateway itself needs, through the same guard as everything else. */
import { Pool } from 'undici';
import type { Json } from '../model.js';
import { decodeUtf8, parseStrict } from '../strict-json.js';
import type { Egress } from './egress.js';

export interface FetchOptions {
  egress: Egress;
  /** By which the egress guard knows who is at the other end. */
  name: string;
  timeoutMs: number;
  maxBytes: number;
}

/** One GET: no redirect, no second try. @throws Error in words for the operator */
export async function fetchJson(url: string, { egress, name, timeoutMs, maxBytes }: FetchOptions): Promise<Json> {
  const { origin, pathname, search } = new URL(url);
  const pool = new Pool(origin, { connections: 1, connect: egress.connector(name, timeoutMs), maxHeaderSize: 16_384, allowH2: false });
  try {
    const signal = AbortSignal.timeout(timeoutMs);
    const late = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(new Error(`no answer within ${timeoutMs} ms`)), { once: true }));
    // a signal is not heard while connecting
    return await Promise.race([read(pool, pathname + search, signal, maxBytes), late]);
  } finally {
    void pool.destroy();
  }
}

async function read(pool: Pool, path: string, signal: AbortSignal, maxBytes: number): Promise<Json> {
  const { statusCode, body } = await pool.request({ method: 'GET', path, headers: { accept: 'application/json', 'user-agent': 'callgate' }, signal });
  if (statusCode !== 200) throw new Error(`it answered ${statusCode}`);
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) throw new Error(`its answer has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  const parsed = parseStrict(decodeUtf8(Buffer.concat(chunks)) ?? '', { maxDepth: 16 });
  if (!parsed.ok) throw new Error('its answer is not JSON');
  return parsed.value;
}
