/**
 * An agent process that was taken over: it has its key, reads this source, and stops at nothing. Two replicas in production mode, with Redis.
 * What it wants: a second effect, a write that nobody approved, a budget that is larger than its own, a receipt that says what did not happen.
 * The service's books say what it got.
 */
import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { anotherKey } from '../gate/guarded.js';
import { until } from '../recovery/process.js';
import { changedContracts } from '../recovery/quick.js';
import { Agent, type Books, type House, openHouse, type Sent, spawnGateway, type Spawned, unique } from '../support/gateway.js';
import { lowApprovals } from './estate.js';

let house: House;
let database: pg.Client;
let replicas: [Spawned, Spawned];
beforeAll(async () => {
  const redisUrl = inject('redisUrl');
  house = await openHouse({
    CALLGATE_MODE: 'production', CALLGATE_SECRETS_SIGNING_KEYS: Buffer.alloc(32, 7).toString('base64url'), RETAIL_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
    CALLGATE_CONTRACTS_FOLDER: changedContracts([...lowApprovals, ['settle_after: 10s', 'settle_after: 400ms'], ['deadline: 5s }', 'deadline: 2s }']]),
    CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms', CALLGATE_RECONCILE_BACKOFF_FIRST: '100ms', ...(redisUrl ? { REDIS_URL: redisUrl } : {}),
  });
  database = new pg.Client({ connectionString: house.databaseUrl });
  await database.connect();
  replicas = await Promise.all([spawnGateway(house), spawnGateway(house)]);
});
afterAll(async () => {
  await Promise.all((replicas ?? []).map((replica) => replica.stop()));
  await database.end();
  await house.close();
});

const books = (): Promise<Books> => house.shop.books();
const at = (replica: number, key = house.keys.agent): Agent => new Agent((replicas[replica % 2] as Spawned).agentUrl, key);
const desk = (replica: number, key: string): Agent => new Agent((replicas[replica % 2] as Spawned).controlUrl, key);

/** One and the same credit, in the spellings that readers of JSON take for equal. */
const spellings: ((amount: number) => string)[] = [
  (amount) => `{"order_id":"O-420","amount":${amount},"currency":"GBP"}`, (amount) => `{ "currency" : "GBP",\n"amount":${amount}.0,\t"order_id":"O-420" }`, (amount) => `{"amount":${amount}e0,"currency":"\\u0047BP","order_id":"\\u004f\\u002d420"}`,
  (amount) => `{"order_id":"O-420","amount":${amount / 10}E+1,"currency":"GBP"}`, (amount) => `{"order_id":"O-420","amount":${amount}00e-2,"currency":"GBP"}`, (amount) => `{"order_id":"O-420","amount":${amount}.000000000000000000000001,"currency":"GBP"}`,
];
type Turn = { session: string; intent: string; call: string };
/** Bodies of every door, with arguments as text where a door takes them so. */
const doors: [string, (turn: Turn, args: string) => string][] = [
  ['/v1/calls', ({ session, intent, call }, args) => `{"session_id":"${session}","intent_id":"${intent}","call_id":"${call}","tool":"issue_credit","arguments":${args}}`],
  ['/v1/calls', ({ session, intent, call }, args) => JSON.stringify({ session_id: session, intent_id: intent, call_id: call, tool: 'issue_credit', arguments: args })],
  ['/v1/batches', ({ session, intent, call }, args) => `{"session_id":"${session}","intent_id":"${intent}","calls":[{"call_id":"${call}","tool":"issue_credit","arguments":${args}},{"call_id":"${call}","tool":"issue_credit","arguments":${args}}]}`],
  ['/v1/dialects/openai-chat', ({ session, intent, call }, args) => JSON.stringify({ session_id: session, intent_id: intent, message: { tool_calls: [{ id: call, type: 'function', function: { name: 'issue_credit', arguments: args } }] }, finish_reason: 'tool_calls' })],
  ['/v1/dialects/openai-responses', ({ session, intent, call }, args) => JSON.stringify({ session_id: session, intent_id: intent, output: [{ type: 'function_call', call_id: call, name: 'issue_credit', arguments: args }], status: 'completed' })],
  ['/v1/dialects/anthropic', ({ session, intent, call }, args) => `{"session_id":"${session}","intent_id":"${intent}","message":{"content":[{"type":"tool_use","id":"${call}","name":"issue_credit","input":${args}}]},"stop_reason":"tool_use"}`],
];

const answersIn = (sent: Sent): Sent[] => (sent as unknown as { results?: Sent[] }).results ?? [sent];

let amounts = 100;

describe('a second effect', () => {
  it('is not to be had by spelling the call differently, at every door of both replicas at once', async () => {
    amounts += 10;
    const amount = amounts;
    const turn = { session: unique('s'), intent: unique('i') };
    const sent = await Promise.all(doors.flatMap(([path, body], door) => spellings.map((spell, n) => at(door + n).post(path, body({ ...turn, call: `c-${door}-${n}` }, spell(amount)), { prefer: 'wait=40' }))));
    const answers = sent.flatMap(answersIn);
    expect(new Set(answers.map(({ disposition }) => disposition))).toEqual(new Set(['executed', 'replayed']));
    expect(new Set(answers.map(({ operation_id }) => operation_id)).size).toBe(1);
    expect((await books()).credits.filter((credit) => credit.amount === amount)).toHaveLength(1);
  }, 60_000);

  type Move = { do: 'propose' | 'cancel' | 'tell' | 'decide'; door: number; spelling: number; replica: number; afterMs: number; prefer: string | null; hangsUpMs: number | null };
  const move: fc.Arbitrary<Move> = fc.record({
    do: fc.constantFrom('propose', 'propose', 'propose', 'propose', 'cancel', 'tell', 'decide'), door: fc.nat(doors.length - 1), spelling: fc.nat(spellings.length - 1), replica: fc.nat(1), afterMs: fc.nat(120),
    prefer: fc.constantFrom(null, 'wait=0', 'wait=1', 'respond-async', 'wait=30'), hangsUpMs: fc.option(fc.nat(60), { freq: 2 }),
  });
  const fault = fc.constantFrom(null, 'commit_then_drop', 'drop_before_commit', 'commit_then_500', 'accept_202', 'slow_reply');

  it('nor by any order of proposing, hanging up, asking not to wait, cancelling and lying about it, with answers that get lost (property)', async () => {
    await fc.assert(fc.asyncProperty(fc.array(move, { minLength: 4, maxLength: 14 }), fault, async (moves, kind) => {
      amounts += 10;
      const amount = amounts;
      const turn = { session: unique('s'), intent: unique('i') };
      const known: string[] = [];
      const answers: Sent[] = [];
      if (kind) await house.shop.fault({ tool: 'issue_credit', kind, ms: 300 });
      const make = async ({ do: what, door, spelling, replica, afterMs, prefer, hangsUpMs }: Move, n: number): Promise<void> => {
        await new Promise((resolve) => { setTimeout(resolve, afterMs); });
        const [path, body] = doors[door] as (typeof doors)[number];
        const id = known.at(-1) ?? 'op_00000000000000000000000000000000';
        if (what === 'cancel') return void (await at(replica).post(`/v1/operations/${id}/cancel`, ''));
        if (what === 'decide') return void (await desk(replica, house.keys.agent).post('/v1/approvals/apr_01AAAAAAAAAAAAAAAAAAAAAAAA/decision', '{"decision":"approve","expected_digest":"x"}'));
        if (what === 'tell') return void (await tell(replica, { type: 'credit.refused', data: { request_key: id, amount } }));
        const text = body({ ...turn, call: `c-${n}` }, (spellings[spelling] as (typeof spellings)[number])(amount));
        if (hangsUpMs !== null) return hangUp((replicas[replica] as Spawned).agentUrl + path, text, hangsUpMs);
        for (const answer of answersIn(await at(replica).post(path, text, prefer === null ? {} : { prefer }))) {
          answers.push(answer);
          if (answer.operation_id) known.push(answer.operation_id);
        }
      };
      await Promise.all(moves.map(make));
      await until(async () => (await database.query(`select from operations where state in ('sending', 'accepted', 'unknown')`)).rowCount === 0, 60_000); // also those whose caller hung up
      const ids = new Set(known);
      const ended = await Promise.all([...ids].map((id) => at(0).settled(id)));
      const done = (await books()).credits.filter((credit) => credit.amount === amount);
      expect(new Set(done.map(({ key }) => key)).size).toBe(done.length);
      expect(done.length).toBeLessThanOrEqual(1);
      expect(ended.filter(({ outcome }) => outcome === 'committed')).toHaveLength(done.length === 1 && ids.size > 0 ? 1 : 0);
      for (const { disposition } of answers.filter(({ outcome }) => outcome === 'committed')) expect([disposition, done.length]).toEqual([disposition, 1]);
      await house.shop.reset();
    }), { numRuns: Number(process.env['STORMS'] ?? 12) });
  }, 300_000);
});

describe('a write that nobody approved', () => {
  const parked = async (amount: number, more: object = {}): Promise<{ answer: Sent; approval: { id: string; digest: string } }> => {
    const answer = await at(0).credit({ session_id: unique('s'), call_id: 'c', arguments: { order_id: 'O-420', amount }, ...more });
    expect(answer.disposition).toBe('approval_required');
    return { answer, approval: answer.approval as { id: string; digest: string } };
  };
  const decision = ({ digest }: { digest: string }): string => JSON.stringify({ decision: 'approve', expected_digest: digest });

  it('is not to be had with any key of the proposer, of its person or of its customer, nor twice by one person with two keys', async () => {
    const amount = 2_851;
    const { answer, approval } = await parked(amount);
    const path = `/v1/approvals/${approval.id}/decision`;
    const { keys } = house;
    const own: [string, (replica: number) => Agent][] = [
      ['its own', (n) => desk(n, keys.agent)], ['at its own door', (n) => at(n)], ['a reviewer’s, of the same person', (n) => desk(n, keys.proposingReviewer)], ['a reviewer’s, of the customer', (n) => desk(n, keys.subjectReviewer)],
      ['an application’s', (n) => desk(n, keys.application)], ['an administrator’s', (n) => desk(n, keys.admin)],
    ];
    const both = await anotherKey(house, { roles: ['agent', 'reviewer'] });
    const application = await anotherKey(house, { principal: 'agent-1', roles: ['application', 'reviewer'], subject: null });
    own.push(['of both planes', (n) => desk(n, both)], ['an application’s, of the same person', (n) => desk(n, application)]);
    for (const [whose, agent] of own) {
      const sent = await Promise.all([0, 1].map((n) => agent(n).post(path, decision(approval))));
      expect(sent.map(({ http }) => http >= 400 && http < 500), whose).toEqual([true, true]);
    }
    const second = await anotherKey(house, { principal: 'reviewer-1', roles: ['reviewer'], subject: null });
    const twice = await Promise.all([keys.reviewer, second, keys.reviewer, second].map((key, n) => desk(n, key).post(path, decision(approval))));
    expect(twice.filter(({ http }) => http === 200)).toHaveLength(1);
    expect(await at(1).get(`/v1/operations/${answer.operation_id}`)).toMatchObject({ disposition: 'approval_required' });
    expect((await books()).credits.filter((credit) => credit.amount === amount)).toEqual([]);
    await desk(0, keys.secondReviewer).post(path, decision(approval));
    expect(await at(1).settled(answer.operation_id as string)).toMatchObject({ outcome: 'committed' });
    expect((await books()).credits.filter((credit) => credit.amount === amount)).toHaveLength(1);
  }, 60_000);

  it('is not what becomes of an approval by a body that says it is approved, by a key that stands for it, or by a smaller call under its ids', async () => {
    const key = unique('k');
    const session_id = unique('s');
    const { answer, approval } = await parked(2_601, { session_id, idempotency_key: key });
    for (const [member, value] of Object.entries({ approval: { id: approval.id }, approved: true, approval_id: approval.id, disposition: 'executed', roles: ['reviewer'], principal: 'reviewer-1', tenant: 'globex', compensates: answer.operation_id, undoes: answer.operation_id })) {
      expect(await at(1).credit({ session_id, call_id: unique('c'), arguments: { order_id: 'O-420', amount: 2_602 }, [member]: value })).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    }
    expect(await at(1).credit({ session_id, call_id: unique('c'), idempotency_key: key, arguments: { order_id: 'O-420', amount: 7 } })).toMatchObject({ disposition: 'id_conflict' });
    expect(await at(1).credit({ session_id, call_id: 'c', idempotency_key: key, arguments: { order_id: 'O-420', amount: 7 } })).toMatchObject({ disposition: 'id_conflict' });
    const batch = await at(1).post('/v1/batches', JSON.stringify({ session_id, calls: [2_603, 2_603, 2_604].map((amount) => ({ call_id: unique('c'), tool: 'issue_credit', arguments: { order_id: 'O-420', amount, currency: 'GBP' } })) }));
    expect(answersIn(batch).map(({ disposition }) => disposition)).not.toContain('executed');
    await desk(1, house.keys.application).post(`/v1/approvals/${approval.id}/decision`, decision(approval));
    expect(await at(0).settled(answer.operation_id as string)).toMatchObject({ outcome: 'committed', result: { amount: 2_601 } });
    expect((await books()).credits.filter(({ amount }) => amount === 7 || (amount > 2_600 && amount < 2_700)).map(({ amount }) => amount)).toEqual([2_601]);
  }, 60_000);
});

describe('a budget larger than its own', () => {
  it('is not to be had by setting it, by naming another parent, or by asking everywhere at once', async () => {
    const session = unique('bounded');
    expect(await desk(0, house.keys.application).put(`/v1/sessions/${session}`, { budgets: { executions: 3 } })).toMatchObject({ http: 200 });
    for (const agent of [at(0), desk(1, house.keys.agent)]) {
      const set = await fetch(`${agent.url}/v1/sessions/${session}`, { method: 'PUT', body: '{"budgets":{"executions":99}}', headers: { authorization: `Bearer ${house.keys.agent}`, 'content-type': 'application/json' } });
      expect([403, 404]).toContain(set.status);
    }
    expect(await at(0).credit({ session_id: session, parent_session_id: 'other' })).toMatchObject({ http: 400 });
    amounts += 100;
    const base = amounts;
    const sent = await Promise.all(Array.from({ length: 24 }, (_, n) => {
      const [path, body] = doors[n % doors.length] as (typeof doors)[number];
      return at(n).post(path, body({ session, intent: unique('i'), call: unique('c') }, (spellings[0] as (typeof spellings)[number])(base + n)), { prefer: 'wait=40' });
    }));
    const dispositions = sent.flatMap(answersIn).map(({ disposition }) => disposition);
    expect(dispositions.filter((one) => one === 'executed')).toHaveLength(3);
    expect((await books()).credits.filter(({ amount }) => amount >= base && amount < base + 24)).toHaveLength(3);
    amounts += 30;
  }, 60_000);
});

/** Signed with a secret that is not the service's. */
async function tell(replica: number, event: object): Promise<void> {
  const body = JSON.stringify(event);
  const [id, timestamp] = [unique('evt'), String(Math.floor(Date.now() / 1000))];
  const signature = createHmac('sha256', Buffer.alloc(32, 2)).update(`${id}.${timestamp}.${body}`).digest('base64');
  const response = await fetch(`${(replicas[replica] as Spawned).controlUrl}/v1/callbacks/retail`, { method: 'POST', body, headers: { 'content-type': 'application/json', 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` } });
  expect(response.status).toBe(401);
}

function hangUp(url: string, body: string, afterMs: number): Promise<void> {
  return new Promise((resolve) => {
    const sent = request(url, { method: 'POST', agent: false, headers: { authorization: `Bearer ${house.keys.agent}`, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } }, (response) => void response.resume());
    sent.on('error', () => undefined).on('close', () => resolve()).end(body);
    setTimeout(() => sent.destroy(), afterMs);
  });
}
