/**
 * Receipt ids are ULIDs: unique, in the order of time to the millisecond over replicas, and in the order of writing within one, so
 * that a decision stands before its effect also when both fall into one millisecond.
 */
import { randomByte } from './random.js';

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const prefix = 'rcp_';
const timeLength = 10;
/** Ranks the ids of one millisecond. Starts and steps at random: an id tells nobody how many others there were. */
const rankLength = 5;
const maxRank = 32 ** rankLength - 1024;
const randomLength = 11;
/** A clock that was set back by less is waited for; beyond, times that are right are worth more than the order. */
const patienceMs = 1_000;
let lastMs = 0;
let rank = 0;

/** @param at milliseconds since 1970. */
export function newReceiptId(at = Date.now()): string {
  const setBack = at < lastMs && at >= lastMs - patienceMs;
  if ((at === lastMs || setBack) && rank < maxRank) rank += 1 + ((draw() << 5) | draw()) % 1023;
  else {
    lastMs = at === lastMs || setBack ? lastMs + 1 : at;
    rank = (draw() << 15) | (draw() << 10) | (draw() << 5) | draw();
  }
  let random = '';
  for (let i = 0; i < randomLength; i++) random += alphabet[draw()];
  return prefix + encode(lastMs, timeLength) + encode(rank, rankLength) + random;
}

/** Of what people decide on: in the order of time as receipts are. */
export function newReviewId(): string {
  return `rev_${newReceiptId().slice(prefix.length)}`;
}

export function newApprovalId(): string {
  return `apr_${newReceiptId().slice(prefix.length)}`;
}

/** The least id of that millisecond, for bounds of a time range. */
export function firstIdAt(at: Date): string {
  return prefix + encode(at.getTime(), timeLength) + '0'.repeat(rankLength + randomLength);
}

export function timeOfId(id: string): Date {
  let ms = 0;
  for (const char of id.slice(prefix.length, prefix.length + timeLength)) ms = ms * 32 + alphabet.indexOf(char);
  return new Date(ms);
}

/** Of an id without its prefix: 26 digits of five bits, of which the first has three, as a time before the year 10889 has. */
export const idBytes = 16;
const whole = /^rcp_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** @returns null for what is no receipt id as they are made here */
export function bytesOfId(id: unknown): Buffer | null {
  if (typeof id !== 'string' || !whole.test(id)) return null;
  const bytes = Buffer.alloc(idBytes);
  let held = 0;
  let bits = -2; // the first digit has two bits less
  let at = 0;
  for (let n = prefix.length; n < id.length; n++) {
    held = ((held << 5) | alphabet.indexOf(id[n] as string)) & 0x1fff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at++] = held >> bits;
  }
  return bytes;
}

export function idOfBytes(bytes: Buffer): string {
  let id = prefix;
  let held = 0;
  let bits = 2;
  for (const byte of bytes) {
    held = ((held << 8) | byte) & 0x1fff;
    for (bits += 8; bits >= 5; bits -= 5) id += alphabet[(held >> (bits - 5)) & 31];
  }
  return id;
}

/** Five random bits. */
function draw(): number {
  return randomByte() & 31;
}

function encode(value: number, length: number): string {
  let text = '';
  for (let rest = value, i = 0; i < length; i++) {
    text = alphabet[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
