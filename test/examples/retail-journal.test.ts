import fc from 'fast-check';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { startRetailService, type RetailService } from '../../examples/retail/service/server.js';
import { retailProcesses, urlOf } from './retail-process.js';
import { retailAt, token, type Reply } from './retail.js';

const processes = retailProcesses();
const newJournal = () => join(processes.folder, randomUUID());
const everyOrder = ['O-417', 'O-418', 'O-419', 'O-420', 'O-900'];
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** One service after another on one journal, each in a process that only `kill -9` ends. */
function killable(journal = newJournal()) {
  let child: ChildProcessWithoutNullStreams;
  let url = '';
  return {
    ...retailAt(() => url),
    journal,
    async start(limits?: string) {
      child = processes.run({ PORT: '0', RETAIL_TOKEN: token, RETAIL_JOURNAL: journal }, limits);
      running.add(child);
      url = await urlOf(child);
    },
    async kill() {
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      expect(await exit).toEqual([null, 'SIGKILL']);
    },
  };
}
const running = new Set<ChildProcessWithoutNullStreams>();
const services = new Set<RetailService>();
afterEach(async () => {
  for (const child of running) child.kill('SIGKILL');
  for (const service of services) await service.close();
  running.clear();
  services.clear();
});

/** One service on a journal, in this process: as good as a kill for what the next start finds, and faster. */
async function inProcess(journal: string) {
  const service = await startRetailService({ port: 0, token, journal });
  services.add(service);
  return { ...retailAt(() => service.url), close: () => service.close() };
}

describe('kill -9 of the service, and another on its journal', () => {
  it('after an answer: books, request counts and orders are as they were, and every key answers as it did', async () => {
    const shop = killable();
    await shop.start();
    const { receipt_id } = (await shop.credit('k-void')).json;
    await shop.arm({ tool: 'issue_credit', kind: 'double_effect' });
    const again: (() => Promise<Reply>)[] = [
      () => shop.credit('k-1', { ifMatch: '"8"', amount: 1_000 }), () => shop.credit('k-refused', { amount: 5_001 }),
      () => shop.voidCredit(receipt_id, 'v-1'), () => shop.cancel('O-418', 'c-1'), () => shop.cancel('O-1', 'c-2'),
    ];
    const first: Reply[] = [];
    for (const send of again) first.push(await send());
    expect(first.map(({ status }) => status)).toEqual([201, 422, 200, 200, 404]);
    await shop.call('/nowhere');
    const orders = await Promise.all(everyOrder.map((id) => shop.order(id)));
    const books = await shop.books();
    expect([books.credits.length, books.voids.length, books.cancellations.length]).toEqual([3, 1, 1]);
    await shop.kill();

    await shop.start();
    expect(await shop.books()).toEqual(books);
    expect(await Promise.all(everyOrder.map((id) => shop.order(id)))).toEqual(orders);
    for (const [i, { status, text, headers }] of first.entries()) {
      const reply = await again[i]!();
      expect([reply.status, reply.text, reply.headers.etag]).toEqual([status, text, headers.etag]);
      expect(reply.headers['idempotent-replay']).toBe('true');
    }
    expect((await shop.credit('k-1', { amount: 1 })).json).toEqual({ code: 'KEY_REUSED' });
    expect((await shop.books()).credits).toEqual(books.credits);
  });

  it('after accept_202: committed when it is due, not before and not twice, over as many kills as come', async () => {
    const shop = killable();
    await shop.start();
    await shop.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 12_000 });
    const due = Date.now() + 12_000;
    expect((await shop.credit('k-1', { ifMatch: '"7"' })).status).toBe(202);
    for (let kills = 0; kills < 2; kills += 1) {
      await shop.kill();
      await shop.start();
    }
    const { credits } = await shop.books();
    expect(Date.now(), 'the machine was too slow for this test').toBeLessThan(due);
    expect(credits).toEqual([]);
    expect((await shop.credit('k-1', { amount: 1 })).json).toEqual({ code: 'KEY_REUSED' });
    const reply = await shop.credit('k-1', { ifMatch: '"7"' });
    expect(Date.now()).toBeGreaterThanOrEqual(due - 2);
    expect([reply.status, reply.headers['idempotent-replay'], reply.headers.etag]).toEqual([201, 'true', '"8"']);
    await shop.kill();
    await shop.start();
    expect((await shop.books()).credits).toMatchObject([{ key: 'k-1', amount: 2_500, receipt_id: reply.json.receipt_id }]);
  });

  it('before what it had accepted is due: overdue writes are decided before the first answer, in the order they were due', async () => {
    const shop = killable();
    await shop.start();
    await shop.arm({ tool: 'issue_credit', kind: 'delay_commit', ms: 4_000 });
    await shop.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 3_500 });
    const lost = shop.creditRaw('k-late', { amount: 3_000 });
    await expect.poll(async () => (await shop.books()).requests['POST /orders/{id}/credits']).toBe(1);
    expect((await shop.credit('k-early', { amount: 2_500 })).status).toBe(202);
    await shop.kill();
    expect((await lost).bytes).toBe(0);
    await pause(4_050);
    await shop.start();
    expect((await shop.books()).credits.map(({ key }) => key)).toEqual(['k-early']);
    const late = await shop.credit('k-late', { amount: 3_000 });
    expect([late.status, late.json, late.headers['idempotent-replay']]).toEqual([422, { code: 'LIMIT' }, 'true']);
  });

  it('in the middle of 200 credits: everything answered is there, nothing is there twice, a re-send completes the rest', async () => {
    const shop = killable();
    await shop.start();
    const keys = Array.from({ length: 200 }, (_, i) => `k-${i}`);
    const amountOf = (key: string) => 1 + Number(key.slice(2));
    const answered = new Map<string, { text: string; receipt_id: string }>();
    let killed: Promise<void> | undefined;
    const unsent = [...keys];
    await Promise.all(Array.from({ length: 8 }, async () => {
      for (let key = unsent.shift(); key !== undefined && killed === undefined; key = unsent.shift()) {
        const { bytes, text } = await shop.creditRaw(key, { order: 'O-420', amount: amountOf(key) });
        if (bytes > 0) answered.set(key, { text, receipt_id: JSON.parse(text).receipt_id });
        if (answered.size === 60) killed ??= shop.kill();
      }
    }));
    await killed;
    expect(answered.size).toBeGreaterThanOrEqual(60);
    expect(answered.size).toBeLessThan(200);

    await shop.start();
    const { credits, requests } = await shop.books();
    const found = new Map(credits.map(({ key, receipt_id }) => [key, receipt_id]));
    expect(found.size).toBe(credits.length);
    for (const [key, { receipt_id }] of answered) expect(found.get(key)).toBe(receipt_id);
    expect(requests['POST /orders/{id}/credits']).toBeGreaterThanOrEqual(credits.length);
    const paid = credits.reduce((sum, { amount }) => sum + amount, 0);
    expect(await shop.order('O-420')).toMatchObject({ refundable: 90_000 - paid, version: 2 + credits.length });

    for (const key of keys) {
      const reply = await shop.credit(key, { order: 'O-420', amount: amountOf(key) });
      expect([reply.status, reply.headers['idempotent-replay']]).toEqual([201, found.has(key) ? 'true' : undefined]);
      if (answered.has(key)) expect(reply.text).toBe(answered.get(key)!.text);
    }
    expect((await shop.books()).credits.map(({ key }) => key).sort()).toEqual([...keys].sort());
  });
});

describe('the journal', () => {
  it('property: cut anywhere, as a kill in the middle of a write cuts it, it gives the world of its whole lines', async () => {
    const step = fc.record({
      key: fc.integer({ min: 0, max: 5 }), what: fc.constantFrom('credit', 'void', 'cancel'), effects: fc.integer({ min: 1, max: 2 }),
    });
    const steps = fc.array(step, { minLength: 1, maxLength: 8 });
    await fc.assert(fc.asyncProperty(steps, fc.double({ min: 0, max: 1, noNaN: true }), async (taken, part) => {
      const journal = newJournal();
      const first = await inProcess(journal);
      let receipt = 'CR-none';
      for (const { key, what, effects } of taken) {
        if (effects === 2) await first.arm({ tool: 'issue_credit', kind: 'double_effect' });
        if (what === 'credit') receipt = (await first.credit(`k-${key}`, { amount: 400 })).json.receipt_id ?? receipt;
        if (what === 'void') await first.voidCredit(receipt, `v-${key}`);
        if (what === 'cancel') await first.cancel('O-418', `c-${key}`);
      }
      const before = await first.books();
      await first.close();
      const cutAt = Math.floor((await stat(journal)).size * part);
      await truncate(journal, cutAt);

      const second = await inProcess(journal);
      const after = await second.books();
      for (const list of ['credits', 'voids', 'cancellations'] as const) {
        expect(after[list]).toEqual(before[list].slice(0, after[list].length));
      }
      if (part === 1) expect(after).toEqual(before);
      const [credits, voids] = [after.credits.length, after.voids.length];
      expect(await second.order()).toMatchObject({ refundable: 5_000 - 400 * (credits - voids), version: 7 + credits + voids });
      await second.credit('k-last', { amount: 1 });
      const last = await second.books();
      await second.close();
      expect((await readFile(journal, 'utf8')).split('\n').slice(0, -1).every((line) => JSON.parse(line))).toBe(true);
      const third = await inProcess(journal);
      expect(await third.books()).toEqual(last);
      await third.close();
    }), { numRuns: 25 });
  });

  it('a stop is no reset: what was accepted before `close` is committed after the next start', async () => {
    const journal = newJournal();
    const first = await inProcess(journal);
    await first.arm({ tool: 'cancel_order', kind: 'accept_202', ms: 300 });
    expect((await first.cancel('O-418', 'c-1', '"3"')).status).toBe(202);
    await first.close();
    const second = await inProcess(journal);
    const reply = await second.cancel('O-418', 'c-1');
    expect(reply).toMatchObject({ status: 200, headers: { 'idempotent-replay': 'true' }, json: { cancelled_by: 'c-1' } });
  });

  it('`POST /_reset` empties it, also of what is owed, and a request from before writes no more', async () => {
    const journal = newJournal();
    const first = await inProcess(journal);
    await first.credit('k-1');
    await first.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 100 });
    await first.credit('k-2');
    const body = JSON.stringify({ amount: 1, currency: 'GBP', customer_id: 'C-17' });
    const { hostname, port } = new URL(first.url);
    const slow = connect(Number(port), hostname);
    const said = once(slow, 'data');
    slow.write([
      'POST /orders/O-417/credits HTTP/1.1', 'host: retail', `authorization: Bearer ${token}`, 'idempotency-key: k-3',
      `content-length: ${body.length}`, '', '',
    ].join('\r\n'));
    await expect.poll(async () => (await first.books()).requests['POST /orders/{id}/credits']).toBe(3);
    await first.reset();
    slow.write(body);
    expect(String(await said)).toContain('201');
    await pause(150);
    expect(await readFile(journal, 'utf8')).toBe('');
    const { credits } = await first.books();
    expect(credits).toEqual([]);
    slow.destroy();
    await first.credit('k-1', { amount: 5_000 });
    await first.close();
    const second = await inProcess(journal);
    expect((await second.books()).credits).toMatchObject([{ key: 'k-1', amount: 5_000 }]);
  });

  it('a full disk: no answer, no effect, no half line; and with room again the same key executes', async () => {
    const shop = killable();
    await shop.start('-f 1');
    const replies: number[] = [];
    for (let i = 0; i < 10; i += 1) replies.push((await shop.creditRaw(`k-${i}`, { amount: 1 })).bytes);
    const answered = replies.filter((bytes) => bytes > 0).length;
    expect(answered).toBeGreaterThan(0);
    expect(answered).toBeLessThan(10);
    const { credits } = await shop.books();
    expect(credits).toHaveLength(answered);
    expect((await readFile(shop.journal, 'utf8')).endsWith('}\n')).toBe(true);
    await shop.kill();
    await shop.start();
    expect((await shop.books()).credits).toEqual(credits);
    expect((await shop.credit('k-9', { amount: 1 })).headers['idempotent-replay']).toBeUndefined();
  });

  it('is left alone by a second process on the same port', async () => {
    const journal = newJournal();
    const first = await inProcess(journal);
    await first.credit('k-1');
    await appendFile(journal, '{"arrived":"POST /or');
    const before = await readFile(journal);
    const second = startRetailService({ port: Number(new URL(first.url).port), token, journal });
    await expect(second).rejects.toMatchObject({ code: 'EADDRINUSE' });
    expect(await readFile(journal)).toEqual(before);
  });

  it.each([
    ['{"arrived":"unknown"}\nnonsense\n', 'Line 2'],
    ['{"decided":{"key":"k","fingerprint":"","outcome":{"changes":[{"cancelled":{"order_id":"O-1","key":"k"}}]}}}\n', 'no order `O-1`'],
  ])('a line that cannot be read is told, with its place and the mend, and the file stays: %j', async (lines, words) => {
    const journal = newJournal();
    await writeFile(journal, lines);
    const child = processes.run({ PORT: '0', RETAIL_JOURNAL: journal });
    const [said] = await once(child.stderr, 'data') as [Buffer];
    for (const part of [words, journal, 'Move the file away', 'RETAIL_JOURNAL']) expect(said.toString()).toContain(part);
    expect(await once(child, 'exit')).toEqual([1, null]);
    expect(await readFile(journal, 'utf8')).toBe(lines);
  });

  it('a folder that is not there is told', async () => {
    const start = startRetailService({ port: 0, journal: join(processes.folder, 'none', 'journal') });
    await expect(start).rejects.toThrow(/cannot be opened: ENOENT.*Name a file/);
  });

  it('is for its owner alone', async () => {
    const journal = newJournal();
    await inProcess(journal);
    expect((await stat(journal)).mode & 0o777).toBe(0o600);
  });
});
