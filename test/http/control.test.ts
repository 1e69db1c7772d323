import { describe, expect, it } from 'vitest';
import { BadCursor, type ReceiptFilter } from '../../src/ports.js';
import type { Answer } from '../../src/model.js';
import { as, listen } from './listeners.js';

describe('lists of the control plane', () => {
  it('hands the filters over as they were sent, within the tenant of the credential, with a default page', async () => {
    const seen: [string, ReceiptFilter][] = [];
    const { control } = await listen({ records: { receipts: async (tenant, filter) => { seen.push([tenant, filter]); return { items: [], next_cursor: null }; } } });
    const filters = { session_id: 's 1', intent_id: 'i', tool: 'issue_credit', disposition: 'executed', outcome: 'committed', principal: 'p', from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:00+02:00', cursor: 'abc' };
    await fetch(`${control}/v1/receipts?${new URLSearchParams(filters)}`, { headers: as('auditor') });
    await fetch(`${control}/v1/receipts?limit=500`, { headers: as('auditor') });
    expect(seen).toEqual([['acme', { ...filters, limit: 50 }], ['acme', { limit: 500 }]]);
  });

  it('filters operations by state too', async () => {
    const seen: object[] = [];
    const { control } = await listen({ records: { operations: async (_tenant, filter) => { seen.push(filter); return { items: [], next_cursor: null }; } } });
    await fetch(`${control}/v1/operations?state=unknown&limit=1`, { headers: as('auditor') });
    expect(seen).toEqual([{ state: 'unknown', limit: 1 }]);
  });

  it('knows no disposition of an operation, and says so instead of ignoring the filter', async () => {
    const { control } = await listen();
    expect((await fetch(`${control}/v1/operations?disposition=executed`, { headers: as('auditor') })).status).toBe(400);
  });

  it.each([
    'limit=0', 'limit=501', 'limit=-1', 'limit=1.5', 'limit=ten', 'limit=', 'limit=5&limit=6', 'disposition=done', 'outcome=maybe', 'from=yesterday',
    'to=2026-13-01T00:00:00Z', 'from=2026-01-01T00:00:00', 'from=1969-12-31T23:59:59Z', 'to=2026-06-30T23:59:60Z', 'session_id=', 'session_id=%00', 'sesion_id=s', 'state=unknown', 'tenant=other', `cursor=${'c'.repeat(2049)}`,
  ])('refuses `%s` instead of showing what was not asked for', async (query) => {
    let asked = false;
    const { control } = await listen({ records: { receipts: async () => { asked = true; return { items: [], next_cursor: null }; } } });
    const response = await fetch(`${control}/v1/receipts?${query}`, { headers: as('auditor') });
    const problem = (await response.json()) as Answer;
    expect([response.status, problem.code, asked]).toEqual([400, 'INVALID_ENVELOPE', false]);
    expect(problem.errors?.[0]?.pointer).toBe(`/${query.split('=')[0]}`);
  });

  it('answers a cursor that the ledger cannot read 400', async () => {
    const { control, logged } = await listen({ records: { operations: async () => { throw new BadCursor('torn'); } } });
    const response = await fetch(`${control}/v1/operations?cursor=torn`, { headers: as('auditor') });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'INVALID_ENVELOPE', errors: [{ pointer: '/cursor', code: 'BAD_CURSOR' }] });
    expect(logged).toEqual([]);
  });

  it('gives one record by id, and 404 for what is not of this tenant or is no id', async () => {
    const asked: string[] = [];
    const one = async (tenant: string, id: string) => { asked.push(`${tenant}/${id}`); return id.endsWith('_1') ? { id } : null; };
    const { control } = await listen({ records: { receipt: one, operation: one } });
    const get = async (path: string) => {
      const response = await fetch(control + path, { headers: as('auditor') });
      return [response.status, ((await response.json()) as Answer).code];
    };
    expect(await get('/v1/receipts/rcp_1')).toEqual([200, undefined]);
    expect(await get('/v1/operations/op_1')).toEqual([200, undefined]);
    expect(await get('/v1/receipts/rcp_2')).toEqual([404, 'NOT_FOUND']);
    expect(await get('/v1/operations/op_2')).toEqual([404, 'OPERATION_NOT_FOUND']);
    expect(await get('/v1/receipts/%00')).toEqual([404, 'NOT_FOUND']);
    expect(asked).toEqual(['acme/rcp_1', 'acme/op_1', 'acme/rcp_2', 'acme/op_2']);
  });
});

describe('probes', () => {
  it('are unready with 503 and tell states alone, never the detail that may name a host', async () => {
    const { control } = await listen({ health: { readiness: async () => ({ ready: false, checks: { postgres: { state: 'down', detail: 'connect ECONNREFUSED db.internal:5432' }, redis: { state: 'degraded' } } }) } });
    const response = await fetch(`${control}/readyz`);
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({ status: 'unready', checks: { postgres: { state: 'down' }, redis: { state: 'degraded' } } });
  });

  it('a probe that fails itself is unready, and the process is still alive', async () => {
    const { control } = await listen({ health: { readiness: async () => { throw new Error('secret'); } } });
    const ready = await fetch(`${control}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([503, { status: 'unready', checks: {} }]);
    expect((await fetch(`${control}/healthz`)).status).toBe(200);
    expect((await fetch(`${control}/healthz`, { method: 'HEAD' })).status).toBe(200);
  });

  it('gives the page of metrics as the registry renders it', async () => {
    const { control } = await listen();
    const response = await fetch(`${control}/metrics`);
    expect([response.headers.get('content-type'), await response.text()]).toEqual(['text/plain; version=0.0.4', 'callgate_up 1\n']);
  });
});
