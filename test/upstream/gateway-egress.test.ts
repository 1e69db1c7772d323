/** The guard in the whole gateway: what it refuses is told at the start where it can be, and otherwise costs a call and no effect. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Desk, type Desks, openDesks } from '../resilience/desk.js';
import { openGateway, type Opened, unique } from '../support/gateway.js';

describe('a service at an address inside the network that nobody allowed', () => {
  let desks: Desks;
  let desk: Desk;
  const address: { is: string } = { is: '127.0.0.1' };
  const resolve = async () => [{ address: address.is, family: 4 }];
  beforeAll(async () => {
    desks = await openDesks({ desk: { attempts: 2, elapsed: '2s' } });
    desk = desks.desks['desk'] as Desk;
  });
  afterAll(() => desks.close());
  const open = (url: string, allow: string): Promise<Opened> => {
    process.env['DESK_URL'] = url;
    return openGateway(desks.house, { CALLGATE_UPSTREAM_ALLOW_PRIVATE: allow }, { resolve });
  };
  const call = (gateway: Opened, tool: string, args: object) => gateway.agent.call({ session_id: unique('s'), tool, arguments: args });

  it('is no gateway when its contract says the address, in whatever form, and the operator is told what to set', async () => {
    const port = new URL(desk.url).port;
    for (const host of ['127.0.0.1', '2130706433', '0x7f.0.0.1', '[::ffff:127.0.0.1]', 'localhost']) {
      // kept from its name only: the one that the house's own gateway would have
      await expect(open(`http://${host}:${port}`, 'other'), host).rejects.toThrow(/desk\.yaml:\d+:23: error CG621: .*add `desk` to `upstream\.allow_private` \(CALLGATE_UPSTREAM_ALLOW_PRIVATE\)/);
    }
    await expect(open('http://169.254.169.254', 'desk')).rejects.toThrow('`desk=169.254.169.254`');
  });

  it('fails each call before a byte, with no effect, and tells the agent nothing of where it is', async () => {
    const gateway = await open(`http://desk.internal.test:${new URL(desk.url).port}`, 'other');
    try {
      const read = await call(gateway, 'desk_look', { id: 'i1' });
      const written = await call(gateway, 'desk_send', { text: 'x' });
      const observed = await call(gateway, 'desk_ship', { id: 'i1' });
      expect(written).toMatchObject({ http: 502, disposition: 'failed', code: 'UPSTREAM_UNREACHABLE', next_action: 'retry', evidence_of_change: false });
      expect(read).toMatchObject({ http: 502, disposition: 'failed' });
      expect(observed).toMatchObject({ http: 502, disposition: 'failed', code: 'OBSERVATION_FAILED' });
      expect([desk.asked, desk.effects]).toEqual([[], []]);
      for (const answer of [read, written, observed]) expect(JSON.stringify(answer)).not.toMatch(/desk\.internal|127\.0\.0\.1|loopback|address/);
      const story = await gateway.control().get(`/v1/operations/${written.operation_id}`);
      expect(JSON.stringify(story)).toContain('address_refused');
      const metrics = await (await fetch(`${gateway.gateway.controlUrl}/metrics`)).text();
      expect(metrics).toMatch(/callgate_upstream_refusals_total\{service="desk",because="address"\} [1-9]/);
    } finally {
      await gateway.gateway.close();
    }
  });

  it('is never a reason to leave the service alone: once its name leads elsewhere, the next call is executed', async () => {
    const gateway = await open(`http://desk.internal.test:${new URL(desk.url).port}`, 'desk=127.0.0.1');
    try {
      address.is = '169.254.169.254';
      for (let n = 0; n < 12; n++) expect(await call(gateway, 'desk_send', { text: `n${n}` })).toMatchObject({ disposition: 'failed', code: 'UPSTREAM_UNREACHABLE' });
      expect(desk.effects).toHaveLength(0);
      address.is = '127.0.0.1';
      expect(await call(gateway, 'desk_send', { text: 'late' })).toMatchObject({ disposition: 'executed' });
      expect(desk.effects).toHaveLength(1);
    } finally {
      await gateway.gateway.close();
    }
  });
});
