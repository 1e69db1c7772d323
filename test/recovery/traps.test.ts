import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, type Sent } from '../support/gateway.js';
import { spawnFused, until } from './process.js';
import { contractsOf, Scripted, type Setup, type Turn, writeTool } from './table/service.js';

/**
 * Two ways in which well known means of idempotency pay twice, each tried on an implementation that does it that way and then on the gateway, by the
 * same scene at the same service and with the same question to its books. That the first one fails shows that the scene is the trap.
 */
const leaseMs = 1_000;

let service: Scripted;
let house: House;
let open: Opened;
beforeAll(async () => {
  service = new Scripted();
  await service.listen();
  process.env['SCRIPTED_URL'] = service.url;
  house = await openHouse({
    CALLGATE_CONTRACTS_FOLDER: contractsOf(1), CALLGATE_EXECUTION_LEASE: `${leaseMs}ms`, CALLGATE_EXECUTION_SEND_WINDOW: '500ms', CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms',
    CALLGATE_EXECUTION_PATIENCE: '5s', SCRIPTED_URL: service.url,
  });
  open = await openGateway(house);
});
afterAll(async () => {
  await open?.gateway.close();
  await house?.close();
  await service?.close();
});

const silent: Turn = { by: { wire: () => undefined }, takesEffect: true };
const answering = (status: number, takesEffect: boolean): Turn => ({
  takesEffect, by: { wire: (response) => void response.writeHead(status, { 'content-type': 'application/json' }).end('{"code":"OTHER"}') },
});

/** One request to the service, as a handler makes it: of its own, under a key of its own. @returns the status; null: no answer */
async function pay(cell: string, signal?: AbortSignal): Promise<number | null> {
  try {
    const response = await fetch(`${service.url}/writes/neither`, {
      method: 'POST', body: JSON.stringify({ cell }), headers: { 'content-type': 'application/json', 'request-key': randomUUID() }, ...(signal ? { signal } : {}),
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return null;
  }
}

type Told = 'done' | 'failed' | 'in_progress';
interface Mark { until: number; told?: Told }

/**
 * A handler that runs once for each key, as a decorator around it: a mark while it runs, which expires so that a crash does not hold the key for
 * ever, and its answer afterwards. A 5xx or no answer is no success, and frees the key for the retry.
 */
class Naive {
  private readonly marks = new Map<string, Mark>();

  async call(key: string, handler: () => Promise<number | null>): Promise<Told> {
    const mark = this.marks.get(key);
    if (mark?.told) return mark.told;
    if (mark && mark.until > performance.now()) return 'in_progress';
    this.marks.set(key, { until: performance.now() + leaseMs });
    const status = await handler();
    const told = status !== null && status < 400 ? 'done' : 'failed';
    if (status === null || status >= 500) this.marks.delete(key);
    else this.marks.set(key, { until: 0, told });
    return told;
  }

  /** As a client that tries again while it is told to wait, or that it failed. */
  untilDone(key: string, handler: () => Promise<number | null>): Promise<void> {
    return until(async () => (await this.call(key, handler)) === 'done', 10_000);
  }
}

/** The one question, to the books of the service: was it paid exactly once? */
const paidOnce = (cell: string): boolean => service.books(cell).effects === 1;
const arrived = (cell: string, times = 1): Promise<void> => until(() => service.books(cell).sent === times, 5_000);

const proposal = (cell: string, setup: Setup, call = 'c-1', last = false): object => ({ session_id: cell, call_id: call, tool: writeTool(0, setup, last), arguments: { cell } });
const propose = (...given: Parameters<typeof proposal>): Promise<Sent> => open.agent.call({ ...proposal(...given) });

describe('the Powertools trap: an in-progress mark that expires lets the second call execute', () => {
  it('a handler behind such a mark pays twice: its worker died, its mark ran out, and time was taken for proof', async () => {
    service.script('marked', [silent], false);
    const naive = new Naive();
    const dying = new AbortController();
    void naive.call('k', () => pay('marked', dying.signal).then(() => new Promise<never>(() => undefined))); // its process is gone: nothing of it runs any more
    await arrived('marked');
    dying.abort();
    expect(await naive.call('k', () => pay('marked'))).toBe('in_progress');
    await naive.untilDone('k', () => pay('marked'));
    expect(paidOnce('marked')).toBe(false);
    expect(service.books('marked')).toEqual({ sent: 2, effects: 2 });
  });

  it.each([
    ['readback', { disposition: 'replayed', outcome: 'committed', verified: true }],
    ['neither', { http: 202, disposition: 'review', code: 'OUTCOME_UNPROVABLE', next_action: 'escalate' }],
  ] as const)('case-13: the gateway (%s) has its lease run out and pays once: it asks the service, or a person where there is nothing to ask', async (setup, ends) => {
    const cell = `lease-${setup}`;
    service.script(cell, [silent], false);
    const doomed = await spawnFused(house, 'never', { SCRIPTED_URL: service.url });
    const cut = doomed.agent.call({ ...proposal(cell, setup) }).then(() => 'answered', () => 'cut off');
    await arrived(cell);
    doomed.signal('SIGKILL');
    expect(await doomed.ended).toBe('SIGKILL');
    expect(await cut).toBe('cut off');

    const killed = performance.now();
    let last: Sent | undefined;
    await until(async () => {
      last = await propose(cell, setup);
      // Not one answer that lets a client library send it again by itself.
      expect([200, 202, 409]).toContain(last.http);
      return last.next_action !== 'wait';
    }, leaseMs + 10_000);
    expect(last).toMatchObject(ends);
    expect(performance.now() - killed).toBeGreaterThan(leaseMs / 2);
    expect(await propose(cell, setup, 'c-2')).toMatchObject({ disposition: ends.disposition, operation_id: last?.operation_id, duplicate_of: 'c-1' });
    expect(paidOnce(cell)).toBe(true);
    expect(service.books(cell).sent).toBe(1);
  });
});

describe('the IETF trap: a 500 frees the key', () => {
  it('a handler behind a key that a 500 frees pays twice', async () => {
    service.script('freed', [answering(500, true)], false);
    const naive = new Naive();
    expect(await naive.call('k', () => pay('freed'))).toBe('failed');
    await naive.untilDone('k', () => pay('freed'));
    expect(paidOnce('freed')).toBe(false);
  });

  it.each([
    ['both', 1, { outcome: 'committed', verified: true }], ['readback', 1, { outcome: 'committed', verified: true }],
    // the service itself knows the key, so its second answer is about the first effect
    ['key', 2, { outcome: 'committed', verified: false }],
    ['neither', 1, { http: 202, disposition: 'review', code: 'OUTCOME_UNPROVABLE' }],
  ] as const)('case-14: the gateway (%s) takes a 500 for an outcome that is not known, and pays once', async (setup, sent, ends) => {
    const cell = `freed-${setup}`;
    service.script(cell, [answering(500, true)], false);
    const first = await propose(cell, setup);
    expect(first).toMatchObject(ends);
    for (const call of ['c-1', 'c-2', 'c-3']) expect(await propose(cell, setup, call)).toMatchObject({ ...ends, operation_id: first.operation_id });
    expect(paidOnce(cell)).toBe(true);
    expect(service.books(cell).sent).toBe(sent);
  });

  it('a handler that believes the 409 of its second try says that nothing was paid', async () => {
    service.script('conflict', [answering(500, true), answering(409, false)], false);
    const naive = new Naive();
    expect(await naive.call('k', () => pay('conflict'))).toBe('failed');
    expect(await naive.call('k', () => pay('conflict'))).toBe('failed');
    expect(await naive.call('k', () => pay('conflict'))).toBe('failed'); // kept, as a 4xx is: for ever the wrong answer
    expect(paidOnce('conflict')).toBe(true);
  });

  it('case-14: the gateway takes a 409 after the 500 for what it may be, its own effect: never rejected, and a person’s when nothing tells', async () => {
    service.script('conflict-key', [answering(500, true), answering(409, false)], false);
    expect(await propose('conflict-key', 'key')).toMatchObject({ disposition: 'executed', outcome: 'committed' });
    expect(paidOnce('conflict-key')).toBe(true);
    const conflict = answering(409, false);
    service.script('conflict-ever', [answering(500, true), conflict, conflict], false);
    expect(await propose('conflict-ever', 'key')).toMatchObject({ disposition: 'review', code: 'OUTCOME_UNPROVABLE', outcome: 'unknown' });
    expect(paidOnce('conflict-ever')).toBe(true);
  });

  it('case-14: what surely had no effect frees the call, and does not answer it for a day: a declared 503, a refused connection', async () => {
    service.script('outage', [{ by: { wire: (response) => void response.writeHead(503).end('{"code":"NOT_STARTED"}') }, takesEffect: false }], false);
    expect(await propose('outage', 'readback', 'c-1', true)).toMatchObject({ disposition: 'rejected', code: 'NOT_COMMITTED', next_action: 'retry' });
    expect(await propose('outage', 'readback', 'c-1', true)).toMatchObject({ disposition: 'executed', verified: true });
    expect(paidOnce('outage')).toBe(true);
  });
});
