/**
 * case-54 over replicas: a service that asked one replica for a pause is left alone by all of them, while there is a Redis; without one each
 * learns it from the service, with the same results and at most one request more (semantics.md section 9, invariant 8).
 */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Agent, openGateway, type Opened, type Sent, unique } from '../support/gateway.js';
import { startRedis, type TestRedis } from '../support/servers.js';
import { type Desk, type Desks, openDesks } from './desk.js';

const pauseSeconds = 6;
const pressingMs = 2_000;

describe.each(['with Redis', 'with Redis killed in the middle', 'without Redis'] as const)('a pause that one of two replicas was asked for, %s', (kind) => {
  let all: Desks;
  let redis: TestRedis | undefined;
  let both: [Opened, Opened];
  let desk: Desk;
  beforeAll(async () => {
    all = await openDesks({ desk: {}, other: {} });
    redis = kind === 'without Redis' ? undefined : await startRedis();
    const env: Record<string, string> = redis ? { REDIS_URL: redis.url, CALLGATE_LOG_LEVEL: 'silent' } : {};
    both = [await openGateway(all.house, env), await openGateway(all.house, env)];
    desk = all.desks['desk'] as Desk;
  });
  afterAll(async () => {
    await Promise.all(both?.map(({ gateway }) => gateway.close()) ?? []);
    await redis?.stop();
    await all?.close();
  });

  const call = (agent: Agent, tool: string, text = unique('t')): Promise<Sent> => agent.call({ session_id: unique('s'), tool, arguments: tool.endsWith('_look') ? { id: text } : { text } });

  /** A replica gives a command up that Redis does not answer within 250 ms, so on a busy machine a pause may be told to nobody: then, twice at most, to the next. */
  async function pausedBy(here: Agent, there: Agent, again = 2): Promise<{ sessions: Record<string, unknown>; asked: number }> {
    desk.always = 'commit';
    for (const agent of [here, there]) expect(await onceFree(() => call(agent, 'desk_look'))).toMatchObject({ disposition: 'executed' });
    desk.asked.length = 0;
    desk.always = { status: 429, headers: { 'retry-after': String(pauseSeconds) } };
    const told = redis ? pauseTold(redis.url) : undefined;
    await told?.listening;
    const sessions = { session_id: unique('s'), intent_id: unique('i'), tool: 'desk_pay', arguments: { text: unique('t') } };
    const first = await here.call(sessions);
    const asked = desk.calls[0]?.at ?? 0;
    expect(first).toMatchObject({ disposition: 'rate_limited', code: 'RATE_LIMITED', http: 429, next_action: 'retry' });
    expect(Number(first.header('retry-after'))).toBe(pauseSeconds);
    if (!told || (await told.heard)) return { sessions, asked };
    if (again === 0) throw new Error('three pauses in a row were told to nobody');
    return pausedBy(here, there, again - 1);
  }

  it('no request comes before its end from either, each caller is told for how long, and afterwards there is one effect', async () => {
    const [here, there] = both.map(({ agent }) => agent) as [Agent, Agent];
    if (redis) await reachable(both);
    const { sessions, asked } = await pausedBy(here, there);
    if (kind === 'with Redis killed in the middle') process.kill((redis as TestRedis).pid, 'SIGKILL');

    // As a client does that does not know Retry-After, and as other sessions do.
    while (performance.now() - asked < pressingMs) {
      for (const agent of [here, there]) {
        for (const answer of [await agent.call(sessions), await call(agent, 'desk_look'), await call(agent, 'desk_note')]) {
          expect(answer).toMatchObject({ disposition: 'rate_limited', http: 429, next_action: 'retry' });
          expect(answer.retry_after_ms).toBeLessThanOrEqual(pauseSeconds * 1000);
        }
        expect(await call(agent, 'other_look')).toMatchObject({ disposition: 'executed' });
      }
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    expect(desk.calls.length).toBe(redis ? 1 : 2);

    desk.always = 'commit';
    const answers: Sent[] = [];
    while (answers.length < 2) {
      const answer = await (answers.length === 0 ? here : there).call(sessions);
      if (answer.disposition !== 'rate_limited') answers.push(answer);
    }
    expect(answers.map(({ disposition }) => disposition)).toEqual(['executed', 'replayed']);
    expect(desk.effects.filter(({ path }) => path === '/payments')).toHaveLength(1);
    for (const { at } of desk.calls.slice(redis ? 1 : 2)) expect(at - asked).toBeGreaterThan(pauseSeconds * 1000 - 50);
  }, 90_000);
});

async function reachable(both: readonly Opened[]): Promise<void> {
  for (const { gateway } of both) {
    const until = performance.now() + 10_000;
    while (!(await (await fetch(`${gateway.controlUrl}/readyz`)).text()).includes('"redis":{"state":"up"}')) {
      if (performance.now() > until) throw new Error('Redis is never up');
    }
  }
}

async function onceFree(ask: () => Promise<Sent>): Promise<Sent> {
  for (;;) {
    const answer = await ask();
    if (answer.disposition !== 'rate_limited') return answer;
  }
}

/** By an ear beside those of the replicas; false when nothing came for as long as half the pause. */
function pauseTold(url: string): { listening: Promise<unknown>; heard: Promise<boolean> } {
  const ear = new Redis(url);
  const heard = new Promise<boolean>((resolve) => {
    const end = (whether: boolean): void => {
      clearTimeout(timer);
      ear.disconnect();
      resolve(whether);
    };
    const timer = setTimeout(end, (pauseSeconds * 1000) / 2, false);
    ear.on('pmessage', (_pattern, _channel, message: string) => {
      if (message.includes('"paused":"desk"')) end(true);
    });
  });
  return { listening: ear.psubscribe('callgate:*'), heard };
}
