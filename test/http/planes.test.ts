import { describe, expect, it } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import type { Answer } from '../../src/model.js';
import { as, listen } from './listeners.js';

async function status(url: string, headers: Record<string, string>): Promise<[number, string | undefined]> {
  const response = await fetch(url, { headers });
  return [response.status, ((await response.json()) as Answer).code];
}

describe('an agent never gets onto the control plane, and nobody else onto the agents’', () => {
  it.each(['/v1/receipts', '/v1/receipts/keys', '/v1/receipts/export', '/v1/receipts/rcp_1', '/v1/operations', '/v1/operations/op_1'])('%s refuses an agent, alone or combined', async (path) => {
    const { control } = await listen();
    expect(await status(control + path, as('agent'))).toEqual([403, 'WRONG_PLANE']);
    expect(await status(control + path, as('both'))).toEqual([403, 'WRONG_PLANE']);
  });

  it.each(['application', 'reviewer', 'auditor', 'admin', 'both', 'none'])('the agent listener refuses `%s`', async (name) => {
    const { agent } = await listen();
    expect(await status(`${agent}/v1/tools`, as(name))).toEqual([403, 'WRONG_PLANE']);
    expect(await status(`${agent}/v1/operations/op_1`, as(name))).toEqual([403, 'WRONG_PLANE']);
  });

  it.each(['application', 'reviewer', 'auditor', 'admin'])('`%s` reads records', async (name) => {
    const { control } = await listen();
    expect((await fetch(`${control}/v1/receipts`, { headers: as(name) })).status).toBe(200);
    expect((await fetch(`${control}/v1/operations`, { headers: as(name) })).status).toBe(200);
  });

  it.each(['application', 'reviewer', 'auditor', 'admin'])('`%s` reads the keys, and all receipts at once only for proof', async (name) => {
    const { control } = await listen();
    expect((await fetch(`${control}/v1/receipts/keys`, { headers: as(name) })).status).toBe(200);
    expect((await fetch(`${control}/v1/receipts/export`, { headers: as(name) })).status).toBe(['auditor', 'admin'].includes(name) ? 200 : 403);
  });

  it('a credential without a role reads nothing', async () => {
    const { control } = await listen();
    expect(await status(`${control}/v1/receipts`, as('none'))).toEqual([403, 'FORBIDDEN']);
  });

  it.each<[string, Record<string, string>]>([
    ['none', {}], ['another scheme', { authorization: 'Basic Y2c6eA==' }], ['an empty one', { authorization: 'Bearer ' }],
    ['an unknown one', { authorization: 'Bearer cg_unknown' }], ['two in one', { authorization: 'Bearer cg_agent cg_admin' }],
  ])('without a valid credential (%s) both planes say 401 and how to authenticate', async (_which, headers) => {
    const { agent, control } = await listen();
    for (const url of [`${agent}/v1/tools`, `${control}/v1/receipts`]) {
      const response = await fetch(url, { headers });
      expect([response.status, response.headers.get('www-authenticate'), response.headers.get('x-should-retry')]).toEqual([401, 'Bearer realm="callgate"', 'false']);
      expect(((await response.json()) as Answer).code).toBe('UNAUTHENTICATED');
    }
  });

  it('while credentials cannot be looked up, nobody gets in and the caller is told to come back', async () => {
    const { agent } = await listen({ authenticator: { authenticate: async () => { throw new LedgerUnavailable(new Error('down')); } } });
    const response = await fetch(`${agent}/v1/tools`, { headers: as('agent') });
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
  });

  it.each(['/healthz', '/readyz', '/metrics', '/docs', '/openapi.json', '/docs/problems/ID_CONFLICT'])('%s needs no credential', async (path) => {
    const { control } = await listen();
    expect((await fetch(control + path)).status).toBe(200);
  });
});
