/**
 * Structure-aware mutations: what is sent begins as a body that the gateway takes, and is damaged where it holds something, so that damage
 * comes past the first check. Then the text itself may be damaged.
 */
import fc from 'fast-check';

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const nested = (depth: number, leaf: Json, list: boolean): Json => {
  let value = leaf;
  for (let n = 0; n < depth; n++) value = list ? [value] : { a: value };
  return value;
};

/** Values that readers have stumbled over. */
const odd: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(null, true, '', ' ', 0, -0, -1, 1e21, 2 ** 53, 0.1, [], {}, [[]], 'null', '{}', '[]', '"', '\\', '\u0000', '\ufeff', '\ud800', '\u202e', '..', '../../etc/passwd', 'a'.repeat(300)),
  fc.constantFrom<Json>({ __proto__: null, toString: 1 }, JSON.parse('{"__proto__":{"polluted":true}}') as Json, { constructor: { prototype: { polluted: true } } }, { length: 1e9 }, { toJSON: 'x' }, JSON.parse('{"then":"x"}') as Json),
  fc.tuple(fc.integer({ min: 1, max: 120 }), fc.boolean()).map(([depth, list]) => nested(depth, 1, list)),
  fc.integer({ min: 1, max: 40 }).map((n) => 'a'.repeat(n * 1500)),
  fc.integer({ min: 1, max: 3000 }).map((n) => Array.from({ length: n }, (_, i) => i)),
  fc.integer({ min: 1, max: 2000 }).map((n) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, i]))),
  fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>,
  fc.string({ unit: 'binary' }),
);

type Place = (string | number)[];
function placesIn(value: Json, at: Place = []): Place[] {
  if (typeof value !== 'object' || value === null) return [at];
  const entries: [string | number, Json][] = Array.isArray(value) ? value.map((member, n) => [n, member]) : Object.entries(value);
  return [at, ...entries.flatMap(([name, member]) => placesIn(member, [...at, name]))];
}

type Change = { kind: 'put' | 'wrap' | 'repeat' | 'drop' | 'rename'; where: number; value: Json; name: string };
const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom('put', 'put', 'put', 'wrap', 'repeat', 'drop', 'rename'), where: fc.nat(), value: odd,
  name: fc.oneof(fc.constantFrom('__proto__', 'constructor', 'arguments', 'session_id', ''), fc.string({ unit: 'binary', maxLength: 20 })),
});

function changed(value: Json, { kind, where, value: put, name }: Change): Json {
  const places = placesIn(value);
  const place = places[where % places.length] as Place;
  const at = (node: Json, [next, ...rest]: Place, change: (old: Json) => Json): Json => {
    if (next === undefined) return change(node);
    const copy = Array.isArray(node) ? [...node] : Object.assign(Object.create(null) as object, node);
    const holder = copy as Record<string | number, Json>;
    holder[next] = at(holder[next] as Json, rest, change);
    return copy as Json;
  };
  const last = place.at(-1);
  switch (kind) {
    case 'put': return at(value, place, () => put);
    case 'wrap': return at(value, place, (old) => [old]);
    case 'repeat': return at(value, place, (old) => Array.from({ length: 25 }, () => old));
    default:
      if (last === undefined) return value;
      return at(value, place.slice(0, -1), (old) => (Array.isArray(old)
        ? old.filter((_, n) => n !== last)
        : Object.fromEntries(Object.entries(old as object).flatMap(([key, member]) => (key === last ? (kind === 'drop' ? [] : [[name, member]]) : [[key, member]])))));
  }
}

type TextChange = (text: string) => string;
const textChange: fc.Arbitrary<TextChange> = fc.oneof(
  { weight: 5, arbitrary: fc.constant((text: string) => text) },
  { weight: 1, arbitrary: fc.nat().map((at) => (text: string) => text.slice(0, at % (text.length + 1))) },
  { weight: 1, arbitrary: fc.tuple(fc.nat(), fc.constantFrom('{', '}', '[', ']', '"', ',', ':', '\\', '\\u', '\\ud800', '//', '\u0000', '1e999', 'NaN', '-', '0', '\ufeff', '"a":1,', 'ÿ')).map(([at, put]) => (text: string) => {
    const place = at % (text.length + 1);
    return text.slice(0, place) + put + text.slice(place);
  }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 20_000 }).map((n) => (text: string) => '['.repeat(n) + text) },
  { weight: 1, arbitrary: fc.constant((text: string) => text + text) },
);

/** The bytes of a body that began as one of these. */
export function damaged(bodies: readonly Json[]): fc.Arbitrary<Buffer> {
  return fc.tuple(fc.constantFrom(...bodies), fc.array(change, { maxLength: 4 }), textChange, fc.option(fc.tuple(fc.nat(), fc.nat(255)))).map(([body, changes, textual, byte]) => {
    const bytes = Buffer.from(textual(JSON.stringify(changes.reduce(changed, body)) ?? ''));
    if (byte && bytes.length > 0) bytes[byte[0] % bytes.length] = byte[1];
    return bytes;
  });
}

const headerText = fc.oneof(
  fc.constantFrom('', ' ', ',', ';', '=', 'wait=', 'wait=-1', 'wait=1e9', 'wait=5, wait=6', 'respond-async', 'respond-async; wait=1', '"', '00-00000000000000000000000000000000-0000000000000000-00', '0', '-0', 'v1,', 'v1,AAAA', '9'.repeat(400)),
  fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 200 }),
);

/** Headers that the gateway reads, saying anything that HTTP can carry. */
export const headers: fc.Arbitrary<Record<string, string>> = fc.dictionary(
  fc.constantFrom('prefer', 'idempotency-key', 'traceparent', 'accept', 'content-type', 'authorization', 'webhook-id', 'webhook-timestamp', 'webhook-signature', 'x-forwarded-for', 'if-match', 'last-event-id'), headerText, { maxKeys: 3 },
);
