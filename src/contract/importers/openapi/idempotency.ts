/** Which header or body member of an operation is its idempotency key, and whether ours fits into it. */
import type { JsonObject } from '../../../model.js';
import { linearPattern, patternProblem } from '../../linear-pattern.js';
import { textOf } from './source.js';

const known = new Set([
  'paypal-request-id',
  'client_token',
  'clienttoken',
  'client_request_token',
  'clientrequesttoken',
  'client_request_id',
  'clientrequestid',
  'dedupe_key',
  'deduplication_key',
]);

export function isIdempotencyKey(name: string, description: string): boolean {
  if (/idempoten/i.test(name) || known.has(name.toLowerCase())) return true;
  return /idempoten/i.test(description) && /(key|token|nonce|request|reference|uuid|id)$/i.test(name);
}

/** `op_` and 32 characters of [0-9a-z]: what `operation.id` looks like. */
const example = 'op_0123456789abcdefghjkmnpqrstvwxyz';

/** Why the id of an operation cannot be the key; null when it can. */
export function keyProblem(schema: JsonObject): string | null {
  const { minLength, maxLength, pattern, format, enum: values, type } = schema;
  if (type !== undefined && type !== 'string' && !(Array.isArray(type) && type.includes('string'))) return 'the key is no text';
  if (typeof maxLength === 'number' && maxLength < example.length) return `the key has at most ${maxLength} characters, and an operation id has ${example.length}`;
  if (typeof minLength === 'number' && minLength > example.length) return `the key has at least ${minLength} characters, and an operation id has ${example.length}`;
  if (format === 'uuid') return 'the key has to be a UUID, and an operation id is none';
  if (values !== undefined) return 'only certain values are keys';
  const text = textOf(pattern);
  if (text !== '' && patternProblem(text) === undefined && !linearPattern(text).test(example)) return `the key has to match ${text}`;
  return null;
}
