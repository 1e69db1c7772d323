/** The bytes of one response body, bounded while they come and read strictly at their end. */
import type { Json } from '../model.js';
import { decodeUtf8, parseStrict } from '../strict-json.js';
import type { Exchange } from './exchange.js';

export type ResponseBody = Extract<Exchange, { kind: 'response' }>['body'];

const maxDepth = 64;

export class BodyBytes {
  private readonly chunks: Buffer[] = [];
  private length = 0;

  constructor(private readonly maxBytes: number) {}

  /** False: the bound is passed and nothing more need come. */
  push(chunk: Buffer): boolean {
    this.length += chunk.length;
    if (this.length > this.maxBytes) return false;
    this.chunks.push(chunk);
    return true;
  }

  /** A media type other than JSON is held against a body only when the body does not parse: many services mislabel theirs. */
  read(contentType: string | undefined): ResponseBody {
    if (this.length === 0) return { json: null };
    const json = readJson(this.chunks.length === 1 ? this.chunks[0] as Buffer : Buffer.concat(this.chunks));
    return json ?? { unreadable: isJsonType(contentType) ? 'malformed' : 'not_json' };
  }
}

/** An integer beyond 2^53 is kept as its exact text: rounded it would be somebody else's id (case-29). The result schema says whether that is admitted. */
function readJson(bytes: Buffer): { json: Json } | null {
  const text = decodeUtf8(bytes);
  const parsed = text === null ? null : parseStrict(text, { maxDepth }, keptAsText);
  return parsed?.ok ? { json: parsed.value } : null;
}

const keptAsText = (): void => undefined;

/** No type at all says nothing against JSON. */
const isJsonType = (contentType: string | undefined) =>
  contentType === undefined || /^\s*(?:application|text)\/(?:[^;\s]*\+)?json\s*(?:;|$)/i.test(contentType);
