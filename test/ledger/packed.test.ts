import { inflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalText, sha256 } from '../../src/canonical.js';
import type { Receipt } from '../../src/gate/ports.js';
import { deflate, indexed, largestDictionary } from '../../src/ledger/deflate.js';
import { unpack } from '../../src/ledger/packed.js';
import { type KeptDictionary, receiptRow } from '../../src/ledger/receipt-row.js';
import { bytesOfId, idOfBytes, newReceiptId } from '../../src/receipt-id.js';
import type { JsonObject } from '../../src/model.js';

const bytesOf = (hex: string): Buffer => Buffer.from(hex.slice(2), 'hex');
const kept = (text: string): KeptDictionary => ({ digest: '\\x00', index: indexed(Buffer.from(text)) });

/** Of few letters, so that there is much to find again, and of any. */
const text = fc.oneof(fc.string({ unit: fc.constantFrom('a', 'b', '"', 'é', '😀'), maxLength: 600 }), fc.string({ unit: 'grapheme', maxLength: 80 }), fc.string({ unit: fc.constantFrom('ab', 'abc', ' '), maxLength: 9_000, size: 'max' }));

describe('deflate over a dictionary and a context', () => {
  it('is taken by any inflate that is given both', () => {
    fc.assert(fc.property(text, fc.string({ unit: 'grapheme', maxLength: 1_500, size: 'max' }), text, (said, context, dictionary) => {
      const known = Buffer.from(dictionary).subarray(-largestDictionary);
      const packed = Buffer.from(deflate(said.toWellFormed(), context.toWellFormed(), indexed(known)));
      expect(inflateRawSync(packed, { dictionary: Buffer.concat([known, Buffer.from(context.toWellFormed())]) }).toString()).toBe(said.toWellFormed());
    }), { numRuns: 500 });
  });

  it('finds what is in either, at every length and distance', () => {
    const noise = Array.from({ length: 14_000 }, (_, n) => String.fromCharCode(33 + ((n * 7_919 + (n >> 5) * 104_729) % 90))).join('');
    const dictionary = indexed(Buffer.from(noise));
    for (let length = 3; length <= 600; length += 7) {
      for (const at of [0, 1, 100, 5_000, 14_000 - length]) {
        const said = noise.slice(at, at + length);
        const packed = Buffer.from(deflate(said, 'context', dictionary));
        expect(inflateRawSync(packed, { dictionary: Buffer.from(`${noise}context`) }).toString()).toBe(said);
        expect(packed.length).toBeLessThan(24);
      }
    }
  });

  it('leaves what it does not look through to zlib', () => {
    const long = 'the same again, '.repeat(4_096);
    const started = process.cpuUsage();
    const packed = deflate(long, 'context', indexed(Buffer.from('the same again, ')));
    expect(process.cpuUsage(started).user).toBeLessThan(50_000);
    expect(packed.length).toBeLessThan(1_000);
    expect(() => indexed(Buffer.alloc(largestDictionary + 1))).toThrow(RangeError);
  });
});

describe('the id of a receipt in sixteen bytes', () => {
  it('is the same id again, and nothing else has such bytes', () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (at) => {
      const id = newReceiptId(at);
      expect(idOfBytes(bytesOfId(id) as Buffer)).toBe(id);
    }));
    for (const other of ['rcp_', 'rcp_zzzzzzzzzzzzzzzzzzzzzzzzzz', 'op_01m8pm265601427a2kyytryv1w', 'rcp_01m8pm265601427a2kyytryv1W', 7, null]) expect(bytesOfId(other)).toBeNull();
  });
});

const receipt = (body: JsonObject, more: Partial<Receipt> = {}): Receipt => ({
  id: newReceiptId(), kind: 'effect', tenant: 'acme', operationId: 'op_1', sessionId: 's', intentId: '', principal: 'p', tool: 't', disposition: 'executed', outcome: 'committed', body, ...more,
});

/** What is kept is the text under the digest, whatever was said: else nothing that was sealed could be verified any more. */
describe('a packed receipt', () => {
  const dictionary = '{"arguments":{"order_id":"O-","amount":1},"attempts":[{"ms":1,"number":1,"outcome":"committed"}],"result":{"text":"';
  const same = (given: Receipt): boolean => {
    const row = receiptRow(given, kept(dictionary));
    const { digest, body, packed, dictionary: over, ...head } = row;
    expect(packed === null).toBe(over === null);
    expect(packed === null).toBe(body !== null);
    const whole = packed === null ? (body as string) : unpack(bytesOf(packed), head, Buffer.from(dictionary));
    expect(`\\x${sha256(whole).toString('hex')}`).toBe(digest);
    expect(canonicalText(JSON.parse(whole))).toBe(whole);
    return packed !== null;
  };

  it('is exactly the canonical text again that its digest is of, whatever is in it', () => {
    const key = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'id', 'salt', 'proposal_digest', 'decision', 'kind'));
    const json = fc.letrec((tie) => ({
      value: fc.oneof({ depthSize: 'small' }, fc.string({ unit: 'binary' }), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.boolean(), fc.constant(null), fc.array(tie('value'), { maxLength: 4 }), tie('object')),
      object: fc.dictionary(key, tie('value'), { maxKeys: 8 }),
    }));
    fc.assert(fc.property(json.object as fc.Arbitrary<JsonObject>, fc.string({ unit: 'grapheme' }), fc.constantFrom(null, 'op_1', 'op_é"'), (body, session, operationId) => {
      same(receipt(body, { sessionId: session, operationId }));
    }), { numRuns: 1_000 });
  });

  it('keeps apart what has the form of a digest or an id, and leaves what only has the name', () => {
    const digest = `sha256:${'0f'.repeat(32)}`;
    for (const body of [{ proposal_digest: digest, decision: newReceiptId() }, { proposal_digest: digest }, { decision: newReceiptId() }]) expect(same(receipt({ ...body, attempts: [], result: { text: 'committed' } }))).toBe(true);
    for (const body of [{ proposal_digest: null }, { proposal_digest: digest.toUpperCase() }, { decision: 'NOT_COMMITTED' }, { decision: { id: 'x' } }]) same(receipt(body as JsonObject));
  });

  it('is packed too where nothing is of that form: the effect of a read, which no decision admitted, and a proposal whose arguments have no digest', () => {
    const said = { attempts: [{ ms: 1, number: 1, outcome: 'committed' }], result: { text: 'committed' } };
    for (const body of [{ decision: null }, { proposal_digest: null }, { decision: null, proposal_digest: `sha256:${'0f'.repeat(32)}` }]) expect(same(receipt({ ...said, ...body } as JsonObject))).toBe(true);
  });

  it('mends lone halves of surrogate pairs as a whole one does, and holds a result of 64 KiB', () => {
    same(receipt({ lone: 'a\ud800b', ['k\udc00']: [{ '\ud800': '\udfff' }] }));
    expect(same(receipt({ result: { text: 'lorem ipsum '.repeat(5_461) } }))).toBe(true);
    same(receipt({}));
  });

  it('is whole where packing would make it no smaller', () => {
    const noise = Array.from({ length: 2_000 }, (_, n) => String.fromCharCode(0x4e00 + ((n * 7_919) % 20_000))).join('');
    expect(same(receipt({ result: noise }))).toBe(false);
  });

  it('cannot be read over another dictionary, or as another receipt, without being found', () => {
    const row = receiptRow(receipt({ result: { text: 'committed', more: 'p s acme' } }), kept(dictionary));
    const { digest, body, packed, dictionary: _, ...head } = row;
    expect(body).toBeNull();
    const read = (over: string, of: typeof head): string => {
      try {
        return `\\x${sha256(unpack(bytesOf(packed as string), of, Buffer.from(over))).toString('hex')}`;
      } catch {
        return 'unreadable';
      }
    };
    expect(read(dictionary, head)).toBe(digest);
    expect(read(dictionary.replace('committed', 'cancelled'), head)).not.toBe(digest);
    expect(read('', head)).not.toBe(digest);
    expect(read(dictionary, { ...head, tenant: 'globex' })).not.toBe(digest);
    expect(() => unpack(Buffer.concat([Buffer.of(2), bytesOf(packed as string).subarray(1)]), head, Buffer.from(dictionary))).toThrow('another version');
  });
});
