import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Callgate } from '../../src/client/index.js';
import { retailGateway, unique } from '../support/gateway.js';
import { type Cut, cuttingProxy } from './cutting-proxy.js';

/** Client and gateway together are at fault if a customer is paid twice, whichever of the two meant well. Asserted against the shop's own books. */
const at = retailGateway();

const proposal = (intent: string) => ({ session_id: intent, intent_id: intent, tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 100, currency: 'GBP' } });
const credits = async (): Promise<number> => (await at.house.shop.books()).credits.length;
const client = (url: string, key = at.house.keys.agent): Callgate => new Callgate({ url, key, attempts: 12 });

describe('against a gateway', () => {
  it('cut however often and wherever: one effect, one answer', async () => {
    await fc.assert(fc.asyncProperty(fc.array(fc.constantFrom<Cut>('before', 'request', 'sent', 'answer'), { maxLength: 4 }), async (cuts) => {
      const before = await credits();
      const proxy = await cuttingProxy(at.opened.gateway.agentUrl, ...cuts);
      const answer = await client(proxy.url).call<{ receipt_id: string }>(proposal(unique('int')));
      expect(answer).toMatchObject({ outcome: 'committed', verified: true, result: { receipt_id: expect.any(String) } });
      expect(['executed', 'replayed']).toContain(answer.disposition);
      expect(proxy.requests()).toBeGreaterThan(cuts.length);
      expect(await credits()).toBe(before + 1);
    }), { numRuns: 8, examples: [[['sent', 'answer']], [['before', 'request', 'sent']]] });
  }, 120_000);

  it('the service loses its answer, the gateway’s is lost too: the same receipt for every asker', async () => {
    const before = await credits();
    await at.house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    const proxy = await cuttingProxy(at.opened.gateway.agentUrl, 'sent', 'answer');
    const given = { ...proposal(unique('int')), call_id: 'call_1' };
    const answer = await client(proxy.url).call(given, { waitMs: 60_000 });
    expect(answer).toMatchObject({ outcome: 'committed', call_id: 'call_1' });
    expect(await client(at.opened.gateway.agentUrl).call({ ...given, call_id: 'call_2' })).toMatchObject({ disposition: 'replayed', operation_id: answer.operation_id, duplicate_of: 'call_1', result: answer.result });
    expect(await client(at.opened.gateway.agentUrl).operation(answer.operation_id ?? '')).toMatchObject({ disposition: 'executed', result: answer.result });
    expect(await client(at.opened.gateway.agentUrl).result(answer.operation_id ?? '')).toEqual(answer.result);
    expect(await credits()).toBe(before + 1);
  }, 90_000);

  it('a caller who does not wait is told what is unknown, and the outcome when it asks for it', async () => {
    const before = await credits();
    await at.house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 700 });
    const gate = client(at.opened.gateway.agentUrl);
    const answer = await gate.call(proposal(unique('int')), { waitMs: 0 });
    expect(answer).toMatchObject({ disposition: 'unknown', next_action: 'wait' });
    expect(await gate.operation(answer.operation_id ?? '', { waitMs: 60_000 })).toMatchObject({ disposition: 'executed', verified: true });
    expect(await gate.cancel(answer.operation_id ?? '')).toMatchObject({ code: 'TOO_LATE' });
    expect(await credits()).toBe(before + 1);
  }, 90_000);

  it('a refusal is an answer, and is asked for once', async () => {
    const proxy = await cuttingProxy(at.opened.gateway.agentUrl);
    expect(await client(proxy.url).call({ ...proposal(unique('int')), arguments: { order_id: 'O-418', amount: 100, currency: 'GBP' } })).toMatchObject({
      disposition: 'transition_error', next_action: 'refresh', legal_actions: ['cancel_order'],
    });
    expect(proxy.requests()).toBe(1);
  });

  it('keys and listeners that do not fit are said in words', async () => {
    await expect(client(at.opened.gateway.agentUrl, 'cg_nobody').call(proposal('i'))).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    await expect(client(at.opened.gateway.agentUrl, at.house.keys.auditor).tools()).rejects.toMatchObject({ code: 'WRONG_PLANE' });
    await expect(client(at.opened.gateway.controlUrl).call(proposal('i'))).rejects.toMatchObject({ code: expect.stringMatching(/WRONG_PLANE|ROUTE_NOT_FOUND/) });
    await expect(client(`${at.opened.gateway.controlUrl}/docs`).tools()).rejects.toMatchObject({ code: expect.stringMatching(/NOT_A_GATEWAY|ROUTE_NOT_FOUND/) });
  });

  it('tools, plain and for a provider', async () => {
    const gate = client(at.opened.gateway.agentUrl);
    expect((await gate.tools()).tools.map(({ name }) => name)).toContain('issue_credit');
    expect((await gate.tools('openai-chat')).tools).toContainEqual(expect.objectContaining({ type: 'function' }));
  });

  it('a batch of which the answer is lost: each effect once, each answer in its place', async () => {
    const before = await credits();
    const intent = unique('int');
    const call = (amount: number) => ({ tool: 'issue_credit', arguments: { order_id: 'O-417', amount, currency: 'GBP' } });
    const proxy = await cuttingProxy(at.opened.gateway.agentUrl, 'sent', 'answer');
    const { results } = await client(proxy.url).batch({ session_id: intent, intent_id: intent, calls: [call(110), call(120), call(-1)] });
    expect(results.map(({ disposition, outcome }) => outcome ?? disposition)).toEqual(['committed', 'committed', 'invalid_arguments']);
    expect(await credits()).toBe(before + 2);
  });
});
