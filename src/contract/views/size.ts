/** What a set of tools costs in every request that carries it. */
import type { Json } from '../../model.js';

export interface Size {
  tools: number;
  /** Of the JSON text, UTF-8. */
  bytes: number;
  /** An estimate, within a quarter for English texts and JSON: no provider publishes how it counts tools. */
  tokens: number;
}

/** Measured on 805 tools: 828 kB were about 207,000 tokens (case-60). */
const bytesPerToken = 4;

export function sizeOf(tools: number, value: Json): Size {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return { tools, bytes, tokens: Math.ceil(bytes / bytesPerToken) };
}
