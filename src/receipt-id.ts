/** Receipt ids are ULIDs: unique, and in the order of time to the millisecond of the replica that wrote them. */
import { randomFillSync } from 'node:crypto';

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const prefix = 'rcp_';
const timeLength = 10;
const randomLength = 16;
const pool = Buffer.alloc(randomLength * 256);
let used = pool.length;

export function newReceiptId(at = Date.now()): string {
  let random = '';
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  for (let i = 0; i < randomLength; i++) random += alphabet[(pool[used++] as number) & 31];
  return prefix + encodeTime(at) + random;
}

/** The least id of that millisecond, for bounds of a time range. */
export function firstIdAt(at: Date): string {
  return prefix + encodeTime(at.getTime()) + '0'.repeat(randomLength);
}

export function timeOfId(id: string): Date {
  let ms = 0;
  for (const char of id.slice(prefix.length, prefix.length + timeLength)) ms = ms * 32 + alphabet.indexOf(char);
  return new Date(ms);
}

function encodeTime(ms: number): string {
  let text = '';
  for (let rest = ms, i = 0; i < timeLength; i++) {
    text = alphabet[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
