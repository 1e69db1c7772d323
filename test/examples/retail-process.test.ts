import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { raw } from './raw-client.js';
import { retailProcesses, urlOf } from './retail-process.js';

const { run } = retailProcesses();

describe('the service as a process', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)('%s ends it with 0, though a client waits for a delayed commit', async (signal) => {
    const child = run({ PORT: '0', RETAIL_TOKEN: 'secret' });
    try {
      const url = await urlOf(child);
      expect((await raw(url, '/orders/O-417')).status).toBe(401);
      await raw(url, '/_faults', { method: 'POST', body: { tool: 'get_order', kind: 'delay_commit', ms: 60_000 } });
      const hanging = raw(url, '/orders/O-417', { headers: { authorization: 'Bearer secret' } });
      await expect.poll(async () => JSON.parse((await raw(url, '/_books')).text).requests['GET /orders/{id}']).toBe(2);
      child.kill(signal);
      expect(await once(child, 'exit')).toEqual([0, null]);
      expect((await hanging).bytes).toBe(0);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('a PORT that is none is refused in words', async () => {
    const child = run({ PORT: '80a' });
    const [said] = await once(child.stderr, 'data') as [Buffer];
    expect(said.toString()).toContain('PORT is `80a`');
    expect(await once(child, 'exit')).toEqual([1, null]);
  });
});
