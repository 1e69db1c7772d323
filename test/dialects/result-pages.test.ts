/**
 * A result that is too large for an answer is no error: the effect has happened, and whoever is told of an error proposes it again. The
 * answer has the beginning, and the pages together are the whole, to the byte, for those who may see the operation.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { canonicalText } from '../../src/canonical.js';
import { createPool } from '../../src/ledger/connection.js';
import type { Answer, Json, ResultPage } from '../../src/model.js';
import { pageOf, resultBytes } from '../../src/gate/result-page.js';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { type Archive, startArchive } from './archive.js';

const limit = 65_536;
let archive: Archive;
let house: House;
let opened: Opened;

beforeAll(async () => {
  archive = await startArchive();
  house = await openHouse(archive.env);
  opened = await openGateway(house);
});
afterAll(async () => {
  await opened.gateway.close();
  await house.close();
  archive.close();
});
beforeEach(() => {
  archive.documents.clear();
  archive.written.length = 0;
});

type Paged = Sent & ResultPage;
const call = (tool: string, id: string, more: object = {}): Promise<Sent> => opened.agent.call({ session_id: unique('s'), tool, arguments: { id }, ...more });
const page = (id: string | null, query = '', agent: Agent = opened.agent): Promise<Paged> => agent.get(`/v1/operations/${id}/result${query}`) as Promise<Paged>;

async function whole(id: string | null, bytes: number): Promise<string> {
  let text = '';
  for (let offset: number | null = 0; offset !== null;) {
    const got: Paged = await page(id, `?offset=${offset}&limit=${bytes}`);
    expect([got.http, got.offset]).toEqual([200, offset]);
    expect(Buffer.byteLength(got.text)).toBeLessThanOrEqual(bytes);
    text += got.text;
    offset = got.next_offset;
  }
  return text;
}

const large = { text: 'é😀x'.repeat(20_000), list: [3, 1, 2], a: null };

describe('case-34: results larger than an answer may carry', () => {
  it('a read, its replay and the operation later are cut alike, with a reference to the rest', async () => {
    archive.documents.set('d1', JSON.stringify(large));
    const ids = { session_id: unique('s'), call_id: 'c-1' };
    const first = await call('read_document', 'd1', ids);
    expect(first).toMatchObject({ http: 200, disposition: 'executed', result: null, result_part: { offset: 0, bytes: Buffer.byteLength(canonicalText(large)) } });
    const part = first.result_part;
    expect(Buffer.byteLength(part?.text ?? '')).toBeLessThanOrEqual(limit);
    expect(part?.href).toBe(`/v1/operations/${first.operation_id}/result?offset=${part?.next_offset}`);
    expect((await call('read_document', 'd1', ids))).toMatchObject({ disposition: 'replayed', result: null, result_part: part });
    expect(await opened.agent.get(`/v1/operations/${first.operation_id}`)).toMatchObject({ http: 200, result: null, result_part: part });
    const rest = (await opened.agent.get(part?.href ?? '')) as Paged;
    expect(`${part?.text}${rest.text}`).toBe(canonicalText(large).slice(0, (part?.text.length ?? 0) + rest.text.length));
    expect(await whole(first.operation_id, 50_000)).toBe(canonicalText(large));
  });

  it('a write has happened once, and says so', async () => {
    archive.documents.set('d1', JSON.stringify(large));
    const printed = await call('print_document', 'd1');
    expect(printed).toMatchObject({ http: 200, disposition: 'executed', outcome: 'committed', result: null, result_part: { offset: 0 } });
    expect(await whole(printed.operation_id, limit)).toBe(canonicalText(large));
    expect(archive.written).toEqual([printed.operation_id]);
  });

  it('one at the limit is whole, one byte more is cut', async () => {
    for (const [more, cut] of [[0, false], [1, true]] as const) {
      archive.documents.set('d1', JSON.stringify('x'.repeat(limit - 2 + more)));
      const answer = await call('read_document', 'd1');
      expect([answer.result === null, answer.result_part !== undefined]).toEqual([cut, cut]);
    }
  });

  it('in a dialect the model is told how much is missing, and the host where it is', async () => {
    archive.documents.set('d1', JSON.stringify(large));
    const response = { id: unique('msg'), stop_reason: 'tool_use', content: [{ type: 'tool_use', id: 'a', name: 'read_document', input: { id: 'd1' } }] };
    const sent = await opened.agent.post('/v1/dialects/anthropic', JSON.stringify({ session_id: unique('s'), response }));
    const { message, results } = sent as unknown as { message: { content: { content: string }[] }; results: Answer[] };
    const told = JSON.parse(message.content[0]?.content ?? '') as { result_part: { text: string; bytes_given: number; bytes_in_all: number } };
    expect(told).not.toHaveProperty('result');
    expect(told.result_part).toMatchObject({ bytes_given: results[0]?.result_part?.next_offset, bytes_in_all: results[0]?.result_part?.bytes });
    expect(await whole(results[0]?.operation_id ?? null, limit)).toBe(canonicalText(large));
  });

  it('a small result has pages too, and so has one that says nothing', async () => {
    for (const document of [{ b: 1, a: [true] }, null]) {
      archive.documents.set('d1', JSON.stringify(document));
      const { operation_id: id } = await call('read_document', 'd1');
      expect(await page(id)).toMatchObject({ http: 200, text: canonicalText(document), offset: 0, next_offset: null });
    }
  });

  it('a page is never longer than the limit, and its place is said in whole characters', async () => {
    archive.documents.set('d1', JSON.stringify(large));
    const { operation_id: id } = await call('read_document', 'd1');
    const greedy = await page(id, '?limit=999999999');
    expect(greedy.text.length).toBeGreaterThan(1000);
    expect(Buffer.byteLength(greedy.text)).toBeLessThanOrEqual(limit);
    expect((await page(id, '?limit=0')).next_offset).toBe(4);
    const middle = Buffer.from(canonicalText(large)).indexOf('é') + 1;
    for (const query of [`?offset=${middle}`, '?offset=99999999', '?offset=-1', '?offset=x', '?offset=', '?limit=1.5', '?page=2']) {
      expect(await page(id, query), query).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    }
    expect(await page(id, `?offset=${Buffer.byteLength(canonicalText(large))}`)).toMatchObject({ http: 200, text: '', next_offset: null });
  });

  it('nobody else’s: another principal, subject or tenant has no such operation', async () => {
    archive.documents.set('d1', JSON.stringify(large));
    const { operation_id: id } = await call('read_document', 'd1');
    for (const key of [house.keys.otherAgent, house.keys.otherSubject, house.keys.otherTenant]) {
      expect(await page(id, '', opened.as(key))).toMatchObject({ http: 404, code: 'OPERATION_NOT_FOUND', result: null });
    }
    expect((await page('op_none')).code).toBe('OPERATION_NOT_FOUND');
  });

  it('past its retention, and before there is one, it says which', async () => {
    archive.documents.set('d1', JSON.stringify(large));
    const { operation_id: id } = await call('print_document', 'd1');
    const pool = createPool({ url: house.databaseUrl, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
    try {
      await pool.query('update operations set sealed_answer = null where operation_id = $1', [id]);
      expect(await page(id)).toMatchObject({ http: 404, code: 'RESULT_EXPIRED', next_action: 'abandon' });
      await pool.query("update operations set state = 'accepted', outcome = 'accepted' where operation_id = $1", [id]);
      expect(await page(id)).toMatchObject({ http: 409, code: 'IN_PROGRESS', next_action: 'wait' });
      await pool.query("update operations set state = 'committed', outcome = 'committed' where operation_id = $1", [id]);
    } finally {
      await pool.end();
    }
  });
});

describe('pages joined in their order are the canonical text', () => {
  const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>;
  it('of any value, cut anywhere that a caller may ask', () => {
    fc.assert(fc.property(json, fc.integer({ min: 4, max: 40 }), (value, bytes) => {
      const text = resultBytes(value);
      let joined = '';
      for (let offset: number | null = 0; offset !== null;) {
        const got: ResultPage | null = pageOf(text, offset, bytes);
        if (!got) throw new Error('a page that does not begin where the last one ended');
        joined += got.text;
        expect(got.next_offset === null || got.next_offset > offset).toBe(true);
        offset = got.next_offset;
      }
      expect(joined).toBe(canonicalText(value));
      expect(JSON.parse(joined)).toEqual(JSON.parse(JSON.stringify(value)));
    }), { numRuns: 1000 });
  });

  it('and over HTTP, for documents of several kinds and awkward page sizes', async () => {
    for (const [document, bytes] of [[large, 9_999], [[...'😀'.repeat(40)], 5], [{ 'ключ': '\u0001\u2028"\\' }, 4]] as const) {
      archive.documents.set('d1', JSON.stringify(document));
      const { operation_id: id } = await call('read_document', 'd1');
      expect(await whole(id, bytes)).toBe(canonicalText(document as unknown as Json));
    }
  });
});

describe('results as a service writes them', () => {
  it('case-29: an integer beyond 2^53 is given as its exact text, wherever it is told', async () => {
    archive.documents.set('d1', '{"id":9007199254740993,"neighbour":9007199254740992,"small":7,"list":[-7301299420421230017]}');
    const exact = { id: '9007199254740993', neighbour: '9007199254740992', small: 7, list: ['-7301299420421230017'] };
    const ids = { session_id: unique('s'), call_id: 'c-1' };
    for (const disposition of ['executed', 'replayed']) expect(await call('read_document', 'd1', ids)).toMatchObject({ disposition, result: exact });
    const printed = await call('print_document', 'd1');
    expect(printed).toMatchObject({ disposition: 'executed', result: exact });
    expect(await whole(printed.operation_id, 8)).toBe(canonicalText(exact));
    const receipt = await opened.control().get(`/v1/receipts/${printed.receipts.effect}`);
    expect(JSON.stringify(receipt)).toContain('"9007199254740993"');
  });

  it('case-29: a schema that admits a text gives it, and one that wants an integer gives no other number in its place', async () => {
    archive.documents.set('d1', '{"id":9007199254740993,"pages":3}');
    expect(await call('count_pages', 'd1')).toMatchObject({ disposition: 'executed', result: { id: '9007199254740993', pages: 3 } });
    archive.documents.set('d1', '{"id":7,"pages":9007199254740993}');
    expect(await call('count_pages', 'd1')).toMatchObject({ disposition: 'failed', code: 'READ_FAILED', result: null });
  });

  it('case-32: NUL and half of a surrogate pair in a result are no error after an effect', async () => {
    archive.documents.set('d1', '{"note":"O\\u0000K\\ud83d"}');
    const printed = await call('print_document', 'd1');
    expect(printed).toMatchObject({ http: 200, disposition: 'executed', result: { note: 'O\0K\ud83d' } });
    expect(JSON.parse(await whole(printed.operation_id, 8))).toEqual({ note: 'O\0K\ud83d' });
    expect(archive.written).toHaveLength(1);
  });
});
