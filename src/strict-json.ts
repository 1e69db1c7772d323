/**
 * JSON as RFC 8259 has it and not one byte more: the only reader of bodies that come from outside. A leaf.
 *
 * It differs from `JSON.parse` in what it refuses: a key named twice in one object (two readers could act on different
 * values of the same bytes), numbers that overflow, integers that a double cannot carry, and nesting beyond a bound that
 * is checked before recursing. Where both accept a text they return deeply equal values, but for integers that the caller
 * asked to be given as their exact text.
 */
import type { Json, JsonObject } from './model.js';

export type StrictCode = 'MALFORMED_JSON' | 'DUPLICATE_KEY' | 'NUMBER_NOT_FINITE' | 'TOO_DEEP' | 'INTEGER_PRECISION';

export interface StrictFailure {
  ok: false;
  /** Of the first error in the order of the text. */
  code: StrictCode;
  /** RFC 6901 pointer of the innermost value under way when reading stopped; for DUPLICATE_KEY, of the member. */
  pointer: string;
  /** Offset into the text in UTF-16 code units. */
  position: number;
  /** Public text; it quotes at most one character of the input. */
  message: string;
}

export type StrictResult = { ok: true; value: Json } | StrictFailure;

/** Beyond this the stack is not trusted, whatever a caller asks for. */
const deepestRecursion = 512;

/**
 * @param limits.maxDepth arrays and objects open at once; 0 admits scalars only, more than 512 counts as 512.
 * @param inexact for what is read and not proposed: an integer that a double cannot carry is then its digits as a string, instead of a
 * refusal, and this is called with what tells its pointer there. A pointer is as long as the keys on its way, so it is put together for whoever
 * asks: a long key over a list of many such integers would else take seconds and hundreds of megabytes.
 */
export function parseStrict(text: string, limits: { maxDepth: number }, inexact?: (pointer: () => string) => void): StrictResult {
  const scanner = new Scanner(text, Math.min(limits.maxDepth, deepestRecursion), inexact);
  try {
    return { ok: true, value: scanner.document() };
  } catch (thrown) {
    if (thrown instanceof Stop) return { ok: false, ...thrown };
    throw thrown;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Null: not well-formed UTF-8, or it begins with a byte order mark (RFC 8259 section 8.1 forbids adding one). */
export function decodeUtf8(bytes: Buffer): string | null {
  try {
    const text = utf8.decode(bytes);
    return text.charCodeAt(0) === 0xfeff ? null : text;
  } catch {
    return null;
  }
}

/** RFC 6901 pointer of the first string or key that Postgres cannot keep (NUL, a lone surrogate); null when there is none. */
export function findUnstorable(value: Json): string | null {
  if (typeof value === 'string') return storable(value) ? null : '';
  if (value === null || typeof value !== 'object') return null;
  for (const key of Object.keys(value)) {
    const below = storable(key) ? findUnstorable((value as JsonObject)[key] as Json) : '';
    if (below !== null) return pointerToken(key) + below;
  }
  return null;
}

const storable = (text: string) => text.isWellFormed() && !text.includes('\0');

/** One step of an RFC 6901 pointer. */
export const pointerToken = (key: string | number): string => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** Carries the refusal out of the recursion; not an Error, for nobody needs its stack. */
class Stop {
  constructor(readonly code: StrictCode, readonly pointer: string, readonly position: number, readonly message: string) {}
}

/* Code units. */
const tab = 0x09, lineFeed = 0x0a, carriageReturn = 0x0d, space = 0x20;
const quote = 0x22, comma = 0x2c, colon = 0x3a, openBracket = 0x5b, closeBracket = 0x5d, openBrace = 0x7b, closeBrace = 0x7d, backslash = 0x5c;
const plus = 0x2b, minus = 0x2d, point = 0x2e, zero = 0x30, nine = 0x39;
const lowerE = 0x65, lowerF = 0x66, lowerN = 0x6e, lowerT = 0x74, lowerU = 0x75;

const simpleEscapes = new Set([...'"\\/bfnrt'].map((char) => char.charCodeAt(0)));
/** Up to here a loop beats the regular expression, beyond it the expression is several times faster. */
const shortString = 32;
// biome-ignore lint/suspicious/noControlCharactersInRegex: RFC 8259 section 7 forbids exactly these unescaped
const notPlain = /["\\\u0000-\u001f]/g;
const fourHexDigits = /[0-9a-fA-F]{4}/y;

/** Recursive descent; `at` is the next unread code unit (NaN from charCodeAt past the end matches nothing). */
class Scanner {
  private at = 0;
  private depth = 0;
  /** Key or index under way at each open level, null between members; entries at and above `depth` are stale. */
  private readonly path: (string | number | null)[] = [];

  constructor(private readonly text: string, private readonly maxDepth: number, private readonly inexact?: (pointer: () => string) => void) {}

  document(): Json {
    this.skipSpace();
    const value = this.value();
    this.skipSpace();
    if (this.at < this.text.length) this.unexpected('the end of the text');
    return value;
  }

  private value(): Json {
    switch (this.text.charCodeAt(this.at)) {
      case quote: return this.string();
      case openBrace: return this.object();
      case openBracket: return this.array();
      case lowerT: return this.word('true', true);
      case lowerF: return this.word('false', false);
      case lowerN: return this.word('null', null);
      default: return this.number();
    }
  }

  private object(): JsonObject {
    this.open();
    const object: JsonObject = {};
    if (this.text.charCodeAt(this.at) !== closeBrace) {
      do {
        this.skipSpace();
        this.member(object);
      } while (this.another(closeBrace, '`,` or `}`'));
    }
    this.close();
    return object;
  }

  private member(object: JsonObject): void {
    const start = this.at;
    this.path[this.depth - 1] = null;
    if (this.text.charCodeAt(start) !== quote) this.unexpected('a key in double quotes');
    const key = this.string();
    this.path[this.depth - 1] = key;
    if (Object.hasOwn(object, key)) this.stop('DUPLICATE_KEY', start, 'An object names the same key twice.');
    this.skipSpace();
    if (this.text.charCodeAt(this.at) !== colon) this.unexpected('`:`');
    this.at++;
    this.skipSpace();
    const value = this.value();
    if (key === '__proto__') defineOwn(object, key, value);
    else object[key] = value;
  }

  private array(): Json[] {
    this.open();
    const array: Json[] = [];
    if (this.text.charCodeAt(this.at) !== closeBracket) {
      do {
        this.skipSpace();
        this.path[this.depth - 1] = array.length;
        array.push(this.value());
      } while (this.another(closeBracket, '`,` or `]`'));
    }
    this.close();
    return array;
  }

  private open(): void {
    if (this.depth >= this.maxDepth) this.stop('TOO_DEEP', this.at, `Nested deeper than ${this.maxDepth} levels.`);
    this.depth++;
    this.path[this.depth - 1] = null;
    this.at++;
    this.skipSpace();
  }

  private close(): void {
    this.depth--;
    this.at++;
  }

  /** True after a comma; false at the closing character, which is left unread. */
  private another(closing: number, expected: string): boolean {
    this.skipSpace();
    const char = this.text.charCodeAt(this.at);
    if (char === comma) {
      this.at++;
      return true;
    }
    if (char !== closing) this.unexpected(expected);
    return false;
  }

  private string(): string {
    const { text } = this;
    const start = this.at + 1;
    let at = start;
    let escaped = false;
    for (;;) {
      const char = text.charCodeAt(at);
      if (char === quote) break;
      if (char === backslash) {
        escaped = true;
        at += this.escapeLength(at);
      } else if (!(char >= space)) this.unexpected('a closing quote or an escape', at);
      else if (at - start < shortString) at++;
      else at = this.endOfPlainText(at);
    }
    this.at = at + 1;
    return escaped ? (JSON.parse(text.slice(start - 1, at + 1)) as string) : text.slice(start, at);
  }

  private endOfPlainText(at: number): number {
    notPlain.lastIndex = at;
    return notPlain.test(this.text) ? notPlain.lastIndex - 1 : this.text.length;
  }

  private escapeLength(at: number): number {
    const char = this.text.charCodeAt(at + 1);
    if (simpleEscapes.has(char)) return 2;
    fourHexDigits.lastIndex = at + 2;
    if (char !== lowerU || !fourHexDigits.test(this.text)) this.unexpected('a valid escape', at);
    return 6;
  }

  private number(): number | string {
    const { text } = this;
    const start = this.at;
    let at = text.charCodeAt(start) === minus ? start + 1 : start;
    at = text.charCodeAt(at) === zero ? at + 1 : this.digits(at, at === start ? 'a value' : 'a digit');
    const endOfInteger = at;
    if (text.charCodeAt(at) === point) at = this.digits(at + 1, 'a digit');
    if ((text.charCodeAt(at) | 0x20) === lowerE) {
      const sign = text.charCodeAt(at + 1);
      at = this.digits(sign === plus || sign === minus ? at + 2 : at + 1, 'a digit');
    }
    const value = Number(text.slice(start, at));
    if (at === endOfInteger && !Number.isSafeInteger(value)) {
      if (this.inexact) {
        this.at = at;
        this.inexact(() => this.pointer());
        return text.slice(start, at);
      }
      this.stop('INTEGER_PRECISION', start, 'An integer beyond ±9007199254740991 cannot be carried exactly.');
    }
    if (!Number.isFinite(value)) this.stop('NUMBER_NOT_FINITE', start, 'A number overflows to infinity.');
    this.at = at;
    return value;
  }

  /** The offset after one or more digits. */
  private digits(from: number, expected: string): number {
    let at = from;
    for (;;) {
      const char = this.text.charCodeAt(at);
      if (!(char >= zero && char <= nine)) break;
      at++;
    }
    if (at === from) this.unexpected(expected, at);
    return at;
  }

  private word<T extends Json>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.unexpected(`\`${word}\``);
    this.at += word.length;
    return value;
  }

  private skipSpace(): void {
    for (;;) {
      const char = this.text.charCodeAt(this.at);
      if (char !== space && char !== lineFeed && char !== carriageReturn && char !== tab) return;
      this.at++;
    }
  }

  private unexpected(expected: string, at = this.at): never {
    const found = at < this.text.length ? JSON.stringify(String.fromCodePoint(this.text.codePointAt(at) ?? 0)) : 'the end of the text';
    this.stop('MALFORMED_JSON', at, `Expected ${expected} and found ${found} at position ${at}.`);
  }

  private stop(code: StrictCode, position: number, message: string): never {
    throw new Stop(code, this.pointer(), position, message);
  }

  private pointer(): string {
    return this.path.slice(0, this.depth).filter((token) => token !== null).map(pointerToken).join('');
  }
}

/** Assignment to `__proto__` would replace the prototype; JSON.parse too keeps it as an own member. */
const defineOwn = (object: JsonObject, key: string, value: Json) =>
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
