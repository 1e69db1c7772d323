/**
 * Raw deflate (RFC 1951) of a short text over a preset dictionary, in one block of fixed codes: what any inflate takes that is given the same
 * dictionary. zlib does as much and makes a stream for each call, into which the dictionary is hashed again: three times the CPU for a receipt.
 *
 * What an inflate knows beforehand is the dictionary and then the context, which is another one each time.
 */
import { deflateRawSync } from 'node:zlib';

/** Texts beyond this, in UTF-16 units, are zlib's, whose codes are made for each text: worth its price where there is much that no dictionary has. */
export const longestText = 2_048;
/** Of the context, in UTF-16 units. */
export const longestContext = 1_024;
/** An inflate looks back 32 KiB at most: a dictionary that is kept within that with its context and the longest of our texts. */
export const largestDictionary = 16 * 1024;

const hashBits = 12;
const minMatch = 3;
const maxMatch = 258;
/** Places that are tried for a match, the nearest first. */
const tries = 12;

/** A dictionary with an index of what is in it, made once. Places count from 1; 0: none. */
export interface Indexed { readonly bytes: Buffer; readonly newest: Uint16Array; readonly before: Uint16Array }

/** @throws RangeError for one that is too large. */
export function indexed(bytes: Buffer): Indexed {
  if (bytes.length > largestDictionary) throw new RangeError(`a dictionary of ${bytes.length} bytes: at most ${largestDictionary}`);
  const index: Indexed = { bytes, newest: new Uint16Array(1 << hashBits), before: new Uint16Array(bytes.length + 1) };
  for (let at = 0; at + minMatch <= bytes.length; at++) note(index, hashAt(bytes, at), at);
  return index;
}

function note({ newest, before }: Pick<Indexed, 'newest' | 'before'>, hash: number, at: number, from = 0): void {
  before[at - from + 1] = newest[hash] as number;
  newest[hash] = at - from + 1;
}

function hashAt(bytes: Uint8Array, at: number): number {
  return Math.imul(((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number), 0x9e3779b1) >>> (32 - hashBits);
}

/** Dictionary, context and text, one after another; all of one call, which nothing interrupts. */
const window = Buffer.allocUnsafe(largestDictionary + 3 * (longestContext + longestText));
const recent = { newest: new Uint16Array(1 << hashBits), before: new Uint16Array(3 * (longestContext + longestText) + 1) };
/** A literal takes nine bits at most. */
const output = Buffer.allocUnsafe(4 * longestText);
let bits = 0;
let held = 0;
let written = 0;

/** @returns its own bytes only until the next call. */
export function deflate(text: string, context: string, dictionary: Indexed): Buffer {
  if (text.length > longestText || context.length > longestContext) {
    return deflateRawSync(text, { dictionary: Buffer.concat([dictionary.bytes, Buffer.from(context)]) });
  }
  const from = dictionary.bytes.copy(window);
  const start = from + window.write(context, from);
  const end = start + window.write(text, start);
  recent.newest.fill(0);
  for (let at = from; at < start; at++) noteRecent(at, from, end);
  bits = held = written = 0;
  put(0b011, 3); // the last block, of fixed codes
  for (let at = start; at < end;) {
    const match = longestMatch(dictionary, at, from, end);
    if (match.length < minMatch) {
      putLiteral(window[at] as number);
      noteRecent(at++, from, end);
      continue;
    }
    putMatch(match.length, match.distance);
    for (const past = at + match.length; at < past; at++) noteRecent(at, from, end);
  }
  putLiteral(endOfBlock);
  put(0, 7); // what is left of the last byte
  return output.subarray(0, written);
}

function noteRecent(at: number, from: number, end: number): void {
  if (at + minMatch <= end) note(recent, hashAt(window, at), at, from);
}

const found = { length: 0, distance: 0 };

/** In what came since the dictionary first, which is nearer; a farther place has to be longer. */
function longestMatch(dictionary: Indexed, at: number, from: number, end: number): typeof found {
  found.length = 0;
  if (at + minMatch > end) return found;
  const hash = hashAt(window, at);
  search(recent, hash, at, from, end);
  search(dictionary, hash, at, 0, end);
  return found;
}

function search({ newest, before }: Pick<Indexed, 'newest' | 'before'>, hash: number, at: number, from: number, end: number): void {
  const most = Math.min(maxMatch, end - at);
  let place = newest[hash] as number;
  for (let n = 0; place > 0 && n < tries && found.length < most; n++, place = before[place] as number) {
    const other = from + place - 1;
    if (found.length > 0 && window[other + found.length] !== window[at + found.length]) continue;
    let length = 0;
    while (length < most && window[other + length] === window[at + length]) length++;
    if (length > found.length) {
      found.length = length;
      found.distance = at - other;
    }
  }
}

function put(value: number, count: number): void {
  bits |= value << held;
  held += count;
  while (held >= 8) {
    output[written++] = bits & 0xff;
    bits >>>= 8;
    held -= 8;
  }
}

const endOfBlock = 256;

/** Codes of RFC 1951 3.2.6, their bits turned round as they are written. */
const codes = Uint16Array.from({ length: 288 }, (_, symbol) => {
  if (symbol < 144) return turned(0x30 + symbol, 8);
  if (symbol < 256) return turned(0x190 + symbol - 144, 9);
  return symbol < 280 ? turned(symbol - 256, 7) : turned(0xc0 + symbol - 280, 8);
});
const widths = Uint8Array.from({ length: 288 }, (_, symbol) => (symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8));

function turned(code: number, width: number): number {
  let out = 0;
  for (let n = 0; n < width; n++) out |= ((code >> n) & 1) << (width - 1 - n);
  return out;
}

function putLiteral(symbol: number): void {
  put(codes[symbol] as number, widths[symbol] as number);
}

/** By symbol, from 257 on: the least length, and the bits that say by how much it is more (RFC 1951 3.2.5). */
const lengths = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const lengthBits = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const lengthSymbols = Uint8Array.from({ length: maxMatch + 1 }, (_, length) => Math.max(0, lengths.findLastIndex((least) => least <= length)));

function putMatch(length: number, distance: number): void {
  const symbol = lengthSymbols[length] as number;
  putLiteral(257 + symbol);
  put(length - (lengths[symbol] as number), lengthBits[symbol] as number);
  // Distances 1 to 4 are symbols of their own; beyond, two symbols share a power of two.
  const less = distance - 1;
  const extra = less < 4 ? 0 : 30 - Math.clz32(less);
  put(turnedFive[less < 4 ? less : 2 * extra + (less >> extra)] as number, 5);
  put(less & ((1 << extra) - 1), extra);
}

const turnedFive = Uint8Array.from({ length: 32 }, (_, symbol) => turned(symbol, 5));
