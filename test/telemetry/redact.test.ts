import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../../src/model.js';
import { fingerprintSecret } from '../../src/telemetry/fingerprint.js';
import { redact } from '../../src/telemetry/redact.js';
import { isSecretName } from '../../src/telemetry/secret-names.js';
import { replaceSecretShapes } from '../../src/telemetry/secret-shapes.js';

const key = 'a key of the recording boundary';
const text = (value: Json, options = {}) => JSON.stringify(redact(value, options));

describe('tens of thousands of secrets in one value', () => {
  test('none is left; beyond a number that costs nobody else their time the marks tell no two apart', () => {
    const numbers = Array.from({ length: 30_000 }, (_, n) => 100_000 + n);
    const marks = (redact({ password: numbers }, { key }) as { password: string[] }).password;
    expect(marks).toHaveLength(numbers.length);
    expect(marks.every((mark) => mark.startsWith('«redacted'))).toBe(true);
    expect(marks[0]).toBe(fingerprintSecret(key, '100000'));
    expect(marks.filter((mark) => mark !== '«redacted»')).toHaveLength(2_000);
  });
});

describe('by name', () => {
  test.each([
    'password', 'Password', 'user_password', 'passwordHash', 'pwd', 'secret', 'client_secret', 'clientSecret', 'token', 'access_token', 'refreshToken', 'idToken',
    'api_key', 'apiKey', 'apikey', 'X-API-Key', 'APIKEY', 'authorization', 'Authorization', 'Proxy-Authorization', 'cookie', 'Set-Cookie', 'credentials',
    'private_key', 'privateKey', 'signing_key', 'seal_key', 'key_pepper', 'otp', 'cvv', 'pin', 'agent_key', 'reviewer_keys', 'db.password', 'ssh private key',
  ])('what is called %s is hidden, text and number, at any depth', (name) => {
    const value = { a: [{ b: { [name]: 'CANARY plain words' } }, { [name]: 990_417 }, { [name]: ['CANARY', { deeper: 'CANARY' }] }] };
    expect(text(value)).not.toMatch(/CANARY|990417/);
    expect(text(value, { key })).not.toMatch(/CANARY|990417/);
  });

  test.each([
    'tokens', 'max_tokens', 'token_count', 'next_page_token', 'idempotency_key', 'key', 'key_id', 'request_key', 'order_id', 'author', 'authorized', 'keyboard',
    'pinned', 'spin', 'secretary', 'session_id', 'fingerprint', 'policy', 'digest', 'call_id', 'public_key', 'monkey', 'accesskeycount',
  ])('what is called %s is left alone', (name) => {
    const value = { [name]: 'some value', nested: [{ [name]: 7 }] };
    expect(redact(value, { key })).toEqual(value);
  });

  test('yes, no and nothing tell nothing and stay', () => {
    expect(redact({ password: null, token: true, secret: false })).toEqual({ password: null, token: true, secret: false });
  });

  test('what the contract annotates is hidden wherever the name stands, list items and escaped names too', () => {
    const value = { arguments: { card: '4111', cards: ['4111'], 'a/b': 'x', kept: 1 }, attempts: [{ body: { card: '4111' } }] };
    expect(redact(value, { annotated: ['/args/card', '/args/cards/0', '/args/a~1b'] })).toEqual({
      arguments: { card: '«redacted»', cards: ['«redacted»'], 'a/b': '«redacted»', kept: 1 }, attempts: [{ body: { card: '«redacted»' } }],
    });
  });
});

describe('by look', () => {
  const secrets: [string, string][] = [
    ['a bearer token', 'Authorization was Bearer CANARY1 there'], ['a bearer token in lower case', 'bearer c4n4ryCANARY12345'],
    ['basic credentials', `Basic ${Buffer.from('user:CANARY').toString('base64')}`],
    ['a key of the gateway', 'cg_abcdefgh_CANARY0123456789abcdefghijklmnopqrstuvwxyzABCDE'],
    ['a key of a model provider', 'key sk-CANARY at'], ['a long one', 'sk-proj-CANARY_x-y12345'], ['a code host', 'my token is ghp_CANARY3'], ['another', 'github_pat_CANARY_1'],
    ['a cloud key', 'AKIACANARYCANARY1234'], ['a chat token', 'xoxb-CANARY-12'], ['a payment key', 'sk_live_CANARY'],
    ['a private key', '-----BEGIN RSA PRIVATE KEY-----\nCANARY\nCANARY\n-----END RSA PRIVATE KEY----- after'], ['a private key that is cut', 'x -----BEGIN PRIVATE KEY-----\nCANARY'],
    ['a URL with a password', 'postgres://u:CANARY@db.internal/x'], ['a URL without a user', 'redis://:CANARY@h'], ['a password with an at sign', 'postgres://u:CAN@CANARY@db/x'],
    ['a parameter', 'https://x.test/p?api_key=CANARY&page=2'], ['an assignment', 'PASSWORD=CANARY4'], ['an export', "export DB_PASSWORD='CANARY'"], ['a setting', 'password: CANARY99'],
    ['a header', 'cookie: sid=CANARY; other=CANARY'], ['quoted JSON', 'got {"password":"CANARY x"} from it'], ['JSON quoted twice', JSON.stringify(JSON.stringify({ access_token: 'CANARY' }))],
    ['a web token', 'eyJCANARYhbGciOiJI.eyJCANARYzdWIiOiIx.SflKxwRJCANARY'],
  ];

  test.each(secrets)('%s in a text is replaced', (_, secret) => {
    for (const value of [secret, { note: secret }, [`before ${secret}`], { detail: JSON.stringify({ inner: secret }) }]) {
      const clean = text(value, { key });
      expect(clean).not.toMatch(/CANARY/);
      expect(clean).toMatch(/«redacted:[0-9a-f]{8}»/);
    }
  });

  test('the rest of the text stays', () => {
    expect(redact('key sk-CANARY at postgres://u:CANARY@db/x?api_key=CANARY&page=2')).toBe('key «redacted» at postgres://u:«redacted»@db/x?api_key=«redacted»&page=2');
    expect(redact('Bearer CANARY1, then Bearer CANARY2')).toBe('Bearer «redacted», then Bearer «redacted»');
  });

  test.each([
    'The bearer of this letter is the customer.', 'Basic understanding of orders', 'unexpected token } in JSON at position 3', 'the task-force on sk-learn', 'https://example.test:8443/users/@me',
    'token expired', 'O-417', 'op_7f3kq2', 'sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'passwords are not stored here', '2026-01-01T00:00:00.000Z', 'call_abc', 'a=b&c=d', '',
  ])('%j is no secret', (plain) => {
    expect(redact(plain, { key })).toBe(plain);
  });

  test('JSON that a model quoted as text is searched by name, and kept to the letter when it holds nothing', () => {
    expect(redact('{"args": {"pin": 1234, "ok": 1}}')).toBe('{"args":{"pin":"«redacted»","ok":1}}');
    expect(redact('{ "ok" :  [1.0] }')).toBe('{ "ok" :  [1.0] }');
  });

  test('a secret used as a name is replaced too', () => {
    expect(text({ 'sk-CANARY0': 1 })).not.toContain('CANARY');
  });
});

describe('as a whole', () => {
  const canary = fc.stringMatching(/^CANARY[0-9a-zA-Z]{10,30}$/);
  const secretName = fc.constantFrom('password', 'apiKey', 'Authorization', 'client_secret', 'refresh_token', 'PRIVATE-KEY');
  const shaped = (secret: string) => fc.constantFrom(`Bearer ${secret}`, `sk-${secret}`, `ghp_${secret}`, `https://u:${secret}@h/`, `cg_abcdefgh_${secret}`, `password=${secret}`, `-----BEGIN PRIVATE KEY-----${secret}`);

  test('no canary survives, wherever in a document it is put', () => {
    const document = canary.chain((secret) => {
      const holder: fc.Arbitrary<Json> = fc.oneof(
        fc.tuple(secretName, fc.jsonValue()).map(([name, other]): JsonObject => ({ [name]: secret, other: other as Json })),
        fc.tuple(fc.string(), shaped(secret)).map(([before, shape]) => `${before.replaceAll(/[\w«]/g, '')} ${shape}`),
      );
      const wrap = (inner: Json) => fc.constantFrom<Json>({ a: inner }, [inner], [1, [inner, null]], { x: { y: inner }, z: 'plain' }, JSON.stringify(inner), JSON.stringify({ q: inner }));
      return holder.chain(wrap).chain(wrap).chain(wrap);
    });
    fc.assert(fc.property(document, fc.boolean(), (value, keyed) => {
      expect(text(value, keyed ? { key } : {})).not.toContain('CANARY');
    }), { numRuns: 600 });
  });

  test('data without secrets comes back equal', () => {
    const plain = fc.stringMatching(/^[a-z0-9 .,:/{}[\]"äß€😀-]{0,40}$/u).filter((word) => !/pass|secret|token|cookie|authori|credential|pwd|sig|eyj|basic|bearer|sk-|@/.test(word));
    const value = fc.letrec<{ json: Json }>((tie) => ({
      json: fc.oneof(plain, fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null), fc.array(tie('json'), { maxLength: 4 }),
        fc.dictionary(fc.constantFrom('id', 'amount', 'order', '__proto__', 'key', 'states', 'note'), tie('json'))),
    })).json;
    fc.assert(fc.property(value, (json) => {
      expect(JSON.stringify(redact(json, { key }))).toBe(JSON.stringify(json));
    }), { numRuns: 500 });
  });

  test('redacting twice is redacting once, and the argument is not changed', () => {
    fc.assert(fc.property(canary.chain(shaped), secretName, (shape, name) => {
      const value = { note: shape, [name]: shape, quoted: JSON.stringify({ [name]: shape }), list: [`${name}=${shape}`, `${name}: ${shape}`] };
      const before = JSON.stringify(value);
      const once = redact(value, { key });
      expect(redact(once, { key })).toEqual(once);
      expect(redact(once)).toEqual(once);
      expect(JSON.stringify(value)).toBe(before);
    }));
  });

  test('what is given back without a copy, and what is remembered of names, makes nothing less strict: it is what a plain copy says', () => {
    const word = fc.oneof(canary.chain(shaped), fc.constantFrom('plain', 'O-417', ' {"pin":1}', '\u00a0[{"token":"x"}]', '{"a":[1.0]}', '[', 'CANARYvalue', 'a CANARYvalue b', '"password": "x y"', 'key'), fc.string());
    const name = fc.oneof(secretName, fc.constantFrom('card', 'id', '__proto__', 'sk-CANARY0', 'token_count', 'CANARYvalue', '0'), fc.string());
    const value = fc.letrec<{ json: Json }>((tie) => ({
      json: fc.oneof({ maxDepth: 5 }, word, word.map((inner) => JSON.stringify({ inner, pin: inner })), fc.integer(), fc.boolean(), fc.constant(null),
        fc.array(tie('json'), { maxLength: 4 }), fc.dictionary(name, tie('json'), { maxKeys: 5 })),
    })).json;
    const options = fc.constantFrom<Asked>({}, { key }, { key, annotated: ['/args/card'] }, { key, values: ['CANARYvalue', 'abc'] });
    fc.assert(fc.property(value, options, (json, asked) => {
      const before = JSON.stringify(json);
      const clean = redact(json, asked);
      expect(clean).toEqual(plainly(json, asked));
      expect(JSON.stringify(clean)).toBe(JSON.stringify(plainly(json, asked)));
      expect(JSON.stringify(json)).toBe(before);
      if (JSON.stringify(clean) === before) expect(clean).toBe(json);
    }), { numRuns: 1_000 });
  });

  test('the mark is the same for the same secret, by whatever way it was found, and other under another key', () => {
    const mark = fingerprintSecret(key, 'CANARY1x');
    expect(mark).toMatch(/^«redacted:[0-9a-f]{8}»$/);
    expect(redact({ token: 'CANARY1x', note: 'Bearer CANARY1x', url: 'a://u:CANARY1x@h' }, { key })).toEqual({ token: mark, note: `Bearer ${mark}`, url: `a://u:${mark}@h` });
    expect(fingerprintSecret('another key', 'CANARY1x')).not.toBe(mark);
    expect(fingerprintSecret(key, 'CANARY2x')).not.toBe(mark);
  });

  test('depth without end costs no stack, and what is too deep is hidden rather than shown', () => {
    let deep: Json = { password: 'CANARY' };
    for (let i = 0; i < 50_000; i++) deep = i % 2 ? [deep] : { a: deep };
    expect(text(deep)).not.toContain('CANARY');
  });

  test.each(['a.', 'a', 'a://', 'Bearer ', 'password=', 'password: ', '"token":"', '-----BEGIN PRIVATE KEY-----', '\\', 'eyJ.', '-eyJ', 'a://a:', 'http://a', 'cookie:', ' ', '{"a":', 'a:b@', 'BEGIN ', 'token ', 'sk-'])('64 KiB of %j take less than 50 ms', (unit) => {
    const hostile = unit.repeat(Math.ceil(65_536 / unit.length));
    redact(hostile);
    const started = performance.now();
    redact(hostile);
    expect(performance.now() - started).toBeLessThan(50);
  });
});

interface Asked { key?: string; annotated?: string[]; values?: string[] }

/** Every part copied and every name and text searched, whether or not there is anything to find. */
function plainly(value: Json, asked: Asked): Json {
  const mark = (secret: string): string => (/^«redacted(:[0-9a-f]{8})?»$/.test(secret) ? secret : asked.key === undefined ? '«redacted»' : fingerprintSecret(asked.key, secret));
  const clean = (given: string): string => replaceSecretShapes((asked.values ?? []).filter(({ length }) => length >= 4).reduce((rest, secret) => rest.replaceAll(secret, mark(secret)), given), mark);
  const isSecret = (name: string): boolean => isSecretName(name) || (asked.annotated ?? []).some((pointer) => pointer.endsWith(`/${name}`));
  const copy = (from: Json, hidden: boolean): Json => {
    if (Array.isArray(from)) return from.map((item) => copy(item, hidden));
    if (typeof from === 'object' && from !== null) return Object.fromEntries(Object.entries(from).map(([name, member]) => [clean(name), copy(member, hidden || isSecret(name))]));
    if (hidden) return typeof from === 'string' || typeof from === 'number' ? mark(String(from)) : from;
    return typeof from === 'string' ? copyText(from) : from;
  };
  const copyText = (from: string): string => {
    if (!/^\s*[[{]/.test(from)) return clean(from);
    try {
      const inner = JSON.parse(from) as Json;
      const copied = copy(inner, false);
      return JSON.stringify(copied) === JSON.stringify(inner) ? from : JSON.stringify(copied);
    } catch {
      return clean(from);
    }
  };
  return copy(value, false);
}
