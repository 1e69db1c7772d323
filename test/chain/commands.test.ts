import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectFile } from '../../src/project.js';
import { until } from '../recovery/process.js';
import { type House, openGateway, openHouse, type Opened } from '../support/gateway.js';

const folder = mkdtempSync(join(tmpdir(), 'callgate-receipts-'));
const file = (name: string): string => join(folder, name);
let house: House;
let open: Opened;
let db: pg.Client;
beforeAll(async () => {
  const { out } = await callgate('receipts', 'keygen', '--id', 'first');
  house = await openHouse({ CALLGATE_SECRETS_SIGNING_KEYS: out, CALLGATE_RECEIPTS_SEAL_INTERVAL: '50ms', CALLGATE_RECEIPTS_CHECKPOINT_INTERVAL: '100ms' });
  open = await openGateway(house);
  db = new pg.Client({ connectionString: house.databaseUrl });
  await db.connect();
});
afterAll(async () => {
  await open.gateway.close();
  await db.end();
  await house.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The built command, with nothing of this process's settings. */
async function callgate(...args: string[]): Promise<{ code: number | null; out: string; error: string }> {
  const child = spawn(process.execPath, [projectFile('bin', 'callgate.mjs'), ...args], { env: { PATH: process.env['PATH'] ?? '' }, cwd: folder });
  let out = '';
  let error = '';
  child.stdout.on('data', (chunk: Buffer) => { out += chunk.toString(); });
  child.stderr.on('data', (chunk: Buffer) => { error += chunk.toString(); });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, out, error };
}

const exported = (out: string, key = house.keys.auditor) => callgate('receipts', 'export', '--url', open.gateway.controlUrl, '--key', key, '--out', file(out));
const verified = (name: string, ...more: string[]) => callgate('receipts', 'verify', file(name), '--keys', file('keys.json'), ...more);

async function credit(amount: number): Promise<string> {
  const answer = await open.agent.credit({ arguments: { order_id: 'O-417', amount } });
  expect(answer).toMatchObject({ outcome: 'committed' });
  return answer.operation_id as string;
}

/** Until all that was committed is sealed and signed. */
async function signed(): Promise<void> {
  await until(async () => {
    const { rows: [row] } = await db.query(`select (select count(*) from receipts where tenant = 'acme') as written, (select max(sequence) from receipt_checkpoints where tenant = 'acme') as signed`);
    return row?.written === row?.signed;
  }, 15_000);
}

async function saveKeys(): Promise<void> {
  writeFileSync(file('keys.json'), JSON.stringify(await open.control().get('/v1/receipts/keys')));
  const { keys } = JSON.parse(readFileSync(file('keys.json'), 'utf8'));
  writeFileSync(file('keys.json'), JSON.stringify({ keys }));
}

/** An auditor has a file, the public keys, and no reason to believe us. */
describe('from the control plane to a proof on another machine', () => {
  it('export, verify, and go on with the same file later', async () => {
    await saveKeys();
    await credit(101);
    await signed();
    expect(await exported('a.ndjson')).toMatchObject({ code: 0, out: expect.stringContaining('up to sequence 2') });
    const first = await verified('a.ndjson');
    expect(first).toMatchObject({ code: 0, out: expect.stringMatching(/whole; tenant acme, 2 receipts, \d checkpoints?/) });
    const known = /--known (\S+)/.exec(first.out)?.[1] as string;
    await credit(102);
    await signed();
    expect(await exported('a.ndjson')).toMatchObject({ code: 0, out: expect.stringContaining('2 of them new') });
    expect(await verified('a.ndjson', '--known', known)).toMatchObject({ code: 0, out: expect.stringContaining('4 receipts') });
    expect(await verified('a.ndjson', '--known', known.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')))).toMatchObject({ code: 1, out: expect.stringContaining('rewritten') });
  }, 60_000);

  it('a file that was cut off anywhere goes on after its last whole receipt', async () => {
    await exported('whole.ndjson');
    const whole = readFileSync(file('whole.ndjson'), 'utf8').split('\n').filter((line) => !line.startsWith('{"type":"end"')).join('\n');
    const { size } = statSync(file('whole.ndjson'));
    for (const part of [0.1, 0.5, 0.97]) {
      writeFileSync(file('cut.ndjson'), readFileSync(file('whole.ndjson')));
      truncateSync(file('cut.ndjson'), Math.floor(size * part));
      expect(await verified('cut.ndjson')).toMatchObject({ code: 1, out: expect.stringContaining('BROKEN') });
      expect(await exported('cut.ndjson')).toMatchObject({ code: 0 });
      expect(readFileSync(file('cut.ndjson'), 'utf8').split('\n').filter((line) => !line.startsWith('{"type":"end"')).join('\n')).toBe(whole);
      expect(await verified('cut.ndjson')).toMatchObject({ code: 0 });
    }
  }, 60_000);

  it('texts of a caller that read like lines, ends, headers or marks of an export are text in it', async () => {
    const [first = ''] = readFileSync(file('whole.ndjson'), 'utf8').split('\n');
    const hostile = [`s\n${first.slice(0, 300)}`, '\r\n{"type":"end","end":{"sequence":1}}', 'a\u2028{"type":"gone","sequence":2}\u2029\u0085', '"}],"digest":"sha256:0', '«redacted:00000000»', '\\u0000\\n', '{"__proto__":{"type":"end"}}', '\u202e\ufeff'];
    for (const text of hostile) {
      await open.agent.call({ session_id: text, intent_id: text, call_id: text, turn_id: text, tool: 'convert_temperature', arguments: { value: text, [text]: text } });
      await open.agent.call({ session_id: text, tool: text, arguments: { [text]: [text] } });
    }
    await signed();
    expect(await exported('hostile.ndjson')).toMatchObject({ code: 0 });
    const lines = readFileSync(file('hostile.ndjson'), 'utf8').trimEnd().split('\n').map((line) => (JSON.parse(line) as { type: string }).type);
    const { rows: [row] } = await db.query(`select count(*)::integer as n from receipts where tenant = 'acme'`);
    expect([lines.filter((type) => type === 'receipt').length, lines.filter((type) => type === 'end').length]).toEqual([row.n, 1]);
    expect(await verified('hostile.ndjson')).toMatchObject({ code: 0, out: expect.stringContaining(`${row.n} receipts`) });
  }, 60_000);

  it('names the first receipt that is not as it was written', async () => {
    const { rows: [row] } = await db.query(`select receipt_id from receipt_chain where tenant = 'acme' and sequence = 3`);
    const { rows: [kept] } = await db.query('select body, packed, dictionary from receipts where id = $1', [row.receipt_id]);
    const edit = (body: string, packed: Buffer | null, dictionary: number | null): Promise<unknown> =>
      db.query('update receipts set body = $2, packed = $3, dictionary = $4 where id = $1', [row.receipt_id, body, packed, dictionary]);
    const lines = readFileSync(file('a.ndjson'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line) as { header?: { sequence: number }; body: string });
    const whole = lines.find(({ header }) => header?.sequence === 3)?.body as string;
    await edit(whole.replace('102', '999'), null, null);
    await exported('b.ndjson');
    const found = await verified('b.ndjson');
    expect(found.code).toBe(1);
    expect(found.out).toContain(`BROKEN at sequence 3: the content of the receipt \`${row.receipt_id}\` was edited`);
    await edit(kept.body, kept.packed, kept.dictionary);
  }, 30_000);

  it('is of the tenant of the key alone, and only for those who may read all of it', async () => {
    const other = open.as(house.keys.otherTenant);
    expect((await other.credit({ arguments: { order_id: 'O-590', amount: 100 } })).receipts.decision).not.toBeNull();
    await exported('c.ndjson');
    expect(readFileSync(file('c.ndjson'), 'utf8')).not.toContain('globex');
    expect(await exported('d.ndjson', house.keys.reviewer)).toMatchObject({ code: 1, error: expect.stringContaining('403') });
    expect(await exported('d.ndjson', house.keys.agent)).toMatchObject({ code: 1, error: expect.stringContaining('403') });
    expect(await exported('d.ndjson', 'cg_nobody')).toMatchObject({ code: 1, error: expect.stringContaining('401') });
    expect((await open.control(house.keys.auditor).get('/v1/receipts/export?after=x')).http).toBe(400);
  }, 60_000);

  it('says in words what it cannot use', async () => {
    writeFileSync(file('mine.txt'), 'my diary');
    expect(await exported('mine.txt')).toMatchObject({ code: 1, error: expect.stringContaining('choose another file') });
    expect(readFileSync(file('mine.txt'), 'utf8')).toBe('my diary');
    expect(await verified('missing.ndjson')).toMatchObject({ code: 1, error: expect.stringContaining('cannot be read (ENOENT)') });
    expect(await verified('mine.txt')).toMatchObject({ code: 1, out: expect.stringContaining('line 1 is not one of an export') });
    expect(await callgate('receipts', 'verify', file('a.ndjson'), '--keys', file('mine.txt'))).toMatchObject({ code: 1, error: expect.stringContaining('no usable verification keys') });
    expect(await callgate('receipts', 'verify', file('a.ndjson'))).toMatchObject({ code: 2 });
    expect(await callgate('receipts', 'shred')).toMatchObject({ code: 2, error: expect.stringContaining('the verbs are') });
  }, 60_000);

  it('what was signed before a rotation still holds after it', async () => {
    writeFileSync(file('set.json'), house.env['CALLGATE_SECRETS_SIGNING_KEYS'] as string);
    const rotated = await callgate('receipts', 'keygen', '--keys', file('set.json'), '--id', 'second');
    expect(rotated.code).toBe(0);
    await open.gateway.close();
    open = await openGateway(house, { CALLGATE_SECRETS_SIGNING_KEYS: rotated.out });
    await credit(103);
    await signed();
    await saveKeys();
    expect(JSON.parse(readFileSync(file('keys.json'), 'utf8')).keys).toMatchObject([{ kid: 'first' }, { kid: 'second' }]);
    await exported('e.ndjson');
    expect(await verified('e.ndjson')).toMatchObject({ code: 0, out: expect.stringContaining('with the key second') });
  }, 60_000);
});

/** A service that can be reached past the gateway makes every rule of the gateway optional. */
describe('reconcile', () => {
  it('finds effects that did not come through the gateway, and receipts of effects that the service does not know', async () => {
    await exported('r.ndjson');
    const keys = (await house.shop.books()).credits.map(({ key }) => key);
    const reconciled = (...lines: string[]) => {
      writeFileSync(file('seen.txt'), `${lines.join('\n')}\n`);
      return callgate('receipts', 'reconcile', file('r.ndjson'), '--seen', file('seen.txt'), '--tool', 'issue_credit');
    };
    expect(keys.length).toBeGreaterThanOrEqual(3);
    expect(await reconciled(...keys)).toMatchObject({ code: 0, out: expect.stringContaining('0 not through the gateway, 0 unknown to the service') });
    expect(await reconciled(...keys.map((key) => JSON.stringify({ key, amount: 1 })), 'op_bypass')).toMatchObject({ code: 1, out: expect.stringContaining('not through the gateway: op_bypass') });
    const [lost, ...rest] = keys;
    expect(await reconciled(...rest)).toMatchObject({ code: 1, out: expect.stringMatching(new RegExp(`unknown to the service: ${lost} \\(issue_credit, committed; receipt rcp_`)) });
    expect(await reconciled('{"amount":1}')).toMatchObject({ code: 1, error: expect.stringContaining('line 1') });
  }, 60_000);
});
