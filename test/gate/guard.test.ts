import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createPool } from '../../src/ledger/connection.js';
import type { Exchange } from '../../src/upstream/exchange.js';
import { Agent, type House, type Opened, openGateway, openHouse, type Sent, token, unique } from '../support/gateway.js';
import { anotherKey, contractsWith, HeldAgent, visible } from './guarded.js';

/**
 * Authorize and the world: who may do what to which resource, in the state that it is in. A refusal costs no effect, tells what would be
 * legal, and tells nothing at all of what the caller may not see.
 */
const settle: [string, string] = ['    settle_after: 10s\n      lag: 0s\n    verify: always', '    settle_after: 200ms\n      lag: 0s\n    verify: always'];

let house: House;
const opened: Opened[] = [];
let open: Opened;
let agent: HeldAgent;
let session = '';

/** Requests as they leave for the service, and what happens just before a write does. */
const wire = { sent: [] as { method: string; url: string; headers: Record<string, string> }[], before: undefined as (() => Promise<void>) | undefined };

async function gatewayWith(env: Record<string, string> = {}): Promise<Opened> {
  const gateway = await openGateway(house, env, {
    upstream: (upstream) => ({
      ...upstream,
      async send(request, options): Promise<Exchange> {
        wire.sent.push(request);
        if (request.method === 'POST') await wire.before?.();
        return upstream.send(request, options);
      },
    }),
  });
  opened.push(gateway);
  return gateway;
}

beforeAll(async () => {
  house = await openHouse(contractsWith([settle]));
  open = await gatewayWith();
  agent = new HeldAgent(open.gateway.agentUrl, house.keys.agent);
});
afterAll(async () => {
  for (const { gateway } of opened) await gateway.close();
  await house.close();
});
beforeEach(async () => {
  await house.shop.reset();
  Object.assign(wire, { sent: [], before: undefined });
  session = unique('s');
});

const by = (key: string, at = open): HeldAgent => new HeldAgent(at.gateway.agentUrl, key);
const credit = (given: object = {}, change: Record<string, unknown> = {}, who = agent): Promise<Sent> =>
  who.credit({ session_id: session, arguments: { amount: 1000, ...given }, ...change });
const cancel = (order: string, change: Record<string, unknown> = {}, who = agent): Promise<Sent> =>
  who.call({ session_id: session, tool: 'cancel_order', arguments: { order_id: order }, ...change });
const quote = (order: string, change: Record<string, unknown> = {}, who = agent): Promise<Sent> =>
  who.call({ session_id: session, tool: 'quote_credit', arguments: { order_id: order, amount: 100 }, ...change });
async function noWrites(): Promise<void> {
  const { requests } = await house.shop.books();
  expect(Object.entries(requests).filter(([route, n]) => route.startsWith('POST') && n > 0)).toEqual([]);
}
async function outside(path: string, body: object = {}): Promise<void> {
  const response = await fetch(house.service.url + path, {
    method: 'POST', body: JSON.stringify(body), headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': unique('outside') },
  });
  if (!response.ok) throw new Error(await response.text());
}
const outsideCredit = (): Promise<void> => outside('/orders/O-417/credits', { amount: 1, currency: 'GBP', customer_id: 'C-17' });
const decisionOf = async ({ receipts }: Sent, at = open): Promise<Sent> => at.control().get(`/v1/receipts/${receipts.decision}`);

describe('which tools there are for a caller', () => {
  it('case-24: one that is blocked and one that does not exist are told in the same words, and only names of its own list are suggested', async () => {
    const limited = await anotherKey(house, { tools: ['get_order', 'quote_credit'] });
    const without = await gatewayWith(contractsWith([settle, ['PENDING: { cancel_order: CANCELLED }', 'PENDING: { revoke_order: CANCELLED }'], ['\n  cancel_order:\n', '\n  revoke_order:\n']]));
    const ask = (tool: string, at = open): Promise<Sent> => by(limited, at).call({ session_id: session, call_id: 'c', tool, arguments: {} });
    const blocked = await ask('cancel_order');
    const unknown = await ask('cancel_order', without);
    expect(blocked).toMatchObject({ http: 404, disposition: 'blocked_tool', code: 'BLOCKED_TOOL', next_action: 'repair', contract: null });
    expect(visible(blocked)).toEqual(visible(unknown));
    expect(await ask('get_ordr')).toMatchObject({ nearest_tools: ['get_order'] });
    for (const name of ['cancel_ordr', 'void_credits', 'issue_credits', 'quote_credits']) {
      for (const nearest of (await ask(name)).nearest_tools ?? []) expect(['get_order', 'quote_credit']).toContain(nearest);
    }
    expect(wire.sent).toEqual([]);
  });

  it('a purpose or subject that the credential was not given is refused, and a given one is taken', async () => {
    expect(await credit({}, { purpose: 'marketing' })).toMatchObject({ http: 403, code: 'PURPOSE_NOT_GRANTED', next_action: 'abandon' });
    expect(await credit({}, { subject: 'C-18' })).toMatchObject({ http: 403, code: 'SUBJECT_NOT_GRANTED', next_action: 'abandon' });
    expect(wire.sent).toEqual([]);
    expect(await credit({}, { purpose: 'refund', subject: 'C-17' })).toMatchObject({ disposition: 'executed' });
    const asserting = by(await anotherKey(house, { principal: 'desk', subject: null, grants: { assertSubject: true, ownKeys: false } }));
    expect(await credit({}, { subject: 'C-17' }, asserting)).toMatchObject({ disposition: 'executed' });
    expect(await credit({}, { subject: 'C-18' }, asserting)).toMatchObject({ http: 404, code: 'NOT_FOUND' });
    expect((await house.shop.books()).credits).toHaveLength(2);
  });

  it('a tool that policy denies for the purpose is 403 before anything is observed, and the receipt names policy and version', async () => {
    const aimless = by(await anotherKey(house, { principal: 'reader', purposes: [] }));
    const answer = await credit({}, {}, aimless);
    expect(answer).toMatchObject({ http: 403, disposition: 'denied', code: 'FORBIDDEN', next_action: 'abandon' });
    expect(wire.sent).toEqual([]);
    expect(await decisionOf(answer)).toMatchObject({ policy: { version: expect.stringMatching(/^sha256:/) }, observations: [], refusal: { problem: 'FORBIDDEN' } });
  });
});

describe('a resource out of sight', () => {
  const asked: [string, (order: string) => Promise<Sent>][] = [
    ['read by its own tool', (order) => agent.order(order, { session_id: session })],
    ['read by another tool', (order) => quote(order)],
    ['written', (order) => credit({ order_id: order })],
    ['written by a tool that is not legal in its state', (order) => cancel(order)],
    ['written beyond its balance', (order) => credit({ order_id: order, amount: 9000 })],
    ['written on a stale version', (order) => credit({ order_id: order }, { expected_version: '99' })],
  ];
  it.each(asked)('is answered like one that does not exist: %s', async (_, ask) => {
    const foreign = await ask('O-900');
    const requestsOfForeign = wire.sent.length;
    const missing = await ask('O-999');
    expect(foreign).toMatchObject({ http: 404, disposition: 'denied', code: 'NOT_FOUND', next_action: 'ask', states: {}, legal_actions: [], result: null });
    expect(visible(foreign)).toEqual(visible(missing));
    expect(wire.sent.length).toBe(2 * requestsOfForeign);
    await noWrites();
  });

  it('of another subject of the same tenant looks the same as well', async () => {
    const stranger = by(house.keys.otherSubject);
    const foreign = await credit({ order_id: 'O-417' }, {}, stranger);
    expect(visible(foreign)).toEqual(visible(await credit({ order_id: 'O-999' }, {}, stranger)));
    expect(foreign).toMatchObject({ http: 404, code: 'NOT_FOUND' });
    await noWrites();
  });

  it('is not even asked about further: its state, its version and other observations are left alone', async () => {
    const at = await gatewayWith(contractsWith([
      settle,
      ['    expect: observed\n', '    observe: { bill: { tool: get_credit_receipt, args: { request_key: order.customer_id }, max_age: 5s } }\n    expect: observed\n'],
    ]));
    const stranger = by(house.keys.agent, at);
    expect(await credit({ order_id: 'O-900' }, {}, stranger)).toMatchObject({ http: 404, code: 'NOT_FOUND' });
    expect(wire.sent.map(({ url }) => new URL(url).pathname)).toEqual(['/orders/O-900']);
    expect(await credit({ amount: 17 }, {}, stranger)).toMatchObject({ disposition: 'executed' });
    expect(wire.sent.map(({ url }) => new URL(url).pathname)).toContain('/credits');
  });

  it('the decision receipt tells the auditor what the caller is not told', async () => {
    const foreign = await decisionOf(await credit({ order_id: 'O-900' }));
    expect(foreign).toMatchObject({ observations: [{ name: 'order', source: 'get_order' }], policy: { determining: ['agents-may-use-tools', 'nobody-crosses-tenants'] } });
    expect(await decisionOf(await credit({ order_id: 'O-999' }))).toMatchObject({ observations: [] });
  });
});

describe('callers with equal ids everywhere', () => {
  it('case-45: never meet: tenants, principals and subjects each have their own calls, operations, versions and answers', async () => {
    const ids = { session_id: 's', turn_id: 't', intent_id: session, call_id: 'c-1' };
    const callers: [HeldAgent, string, number][] = [
      [agent, 'O-417', 101], [by(house.keys.otherAgent), 'O-417', 202], [by(house.keys.otherTenant), 'O-900', 303],
    ];
    const answers = await Promise.all(callers.map(([who, order, amount]) => credit({ order_id: order, amount }, ids, who)));
    answers.forEach((answer, n) => expect(answer).toMatchObject({ disposition: 'executed', result: { amount: callers[n]?.[2] } }));
    expect(new Set(answers.map(({ operation_id }) => operation_id)).size).toBe(3);
    for (const [n, [who, order, amount]] of callers.entries()) {
      expect(await credit({ order_id: order, amount }, ids, who)).toMatchObject({ disposition: 'replayed', operation_id: answers[n]?.operation_id });
      for (const [m, other] of answers.entries()) {
        const seen = await who.get(`/v1/operations/${other.operation_id}`);
        if (n === m) expect(seen).toMatchObject({ http: 200, operation_id: other.operation_id });
        else expect(seen).toMatchObject({ http: 404, code: 'OPERATION_NOT_FOUND', result: null });
      }
    }
    expect(await by(house.keys.otherSubject).get(`/v1/operations/${answers[0]?.operation_id}`)).toMatchObject({ http: 404 });
    expect((await house.shop.books()).credits.map(({ amount }) => amount).sort()).toEqual([101, 202, 303]);
  });

  it('case-45: 60 concurrent calls of three callers: every answer is the caller’s own', async () => {
    const callers: [HeldAgent, string, number][] = [[agent, 'O-420', 0], [by(house.keys.otherAgent), 'O-420', 1], [by(house.keys.otherTenant), 'O-900', 2]];
    const answers = await Promise.all(Array.from({ length: 60 }, async (_, n) => {
      const [who, order, caller] = callers[n % 3] as [HeldAgent, string, number];
      const amount = 1 + 3 * Math.floor(n / 3) + caller;
      return { amount, answer: await credit({ order_id: order, amount }, { session_id: 's', call_id: `${session}-${Math.floor(n / 3)}` }, who) };
    }));
    for (const { amount, answer } of answers) expect(answer).toMatchObject({ disposition: 'executed', result: { amount } });
    expect((await house.shop.books()).credits).toHaveLength(60);
  });
});

describe('a replay asks again whether it may be told', () => {
  it('the tool: another credential of the same principal that lacks the purpose, or the tool, is not told', async () => {
    const ids = { call_id: 'c-1' };
    expect(await credit({}, ids)).toMatchObject({ disposition: 'executed' });
    expect(await credit({}, ids, by(await anotherKey(house, { purposes: [] })))).toMatchObject({ http: 403, code: 'FORBIDDEN', result: null });
    expect(await credit({}, ids, by(await anotherKey(house, { tools: ['get_order'] })))).toMatchObject({ http: 404, code: 'BLOCKED_TOOL', result: null });
    expect(await credit({}, ids)).toMatchObject({ disposition: 'replayed' });
  });

  it('the resource: under a stricter policy neither the write nor the read is told any more, on the facts as they were stored', async () => {
    const ids = { call_id: 'c-1' };
    const written = await credit({}, ids);
    const read = await agent.order('O-417', { session_id: session, call_id: 'r-1' });
    expect([written, read].map(({ disposition }) => disposition)).toEqual(['executed', 'executed']);
    const strict = await gatewayWith(contractsWith([settle], [
      ['@id("nobody-crosses-tenants")', '@id("closed")\nforbid (principal, action, resource is order) when { resource.order_id == "O-417" };\n\n@id("nobody-crosses-tenants")'],
    ]));
    wire.sent.length = 0;
    for (const again of [await credit({}, ids, by(house.keys.agent, strict)), await by(house.keys.agent, strict).order('O-417', { session_id: session, call_id: 'r-1' })]) {
      expect(again).toMatchObject({ http: 404, code: 'NOT_FOUND', result: null, operation_id: null });
    }
    expect(wire.sent).toEqual([]);
    expect(await credit({}, ids)).toMatchObject({ disposition: 'replayed' });
  });
});

describe('the state of the world', () => {
  it('an action that is not legal is refused with state and legal actions, only those that this caller may use', async () => {
    expect(await credit({ order_id: 'O-418' })).toMatchObject({ http: 409, disposition: 'transition_error', code: 'TRANSITION_ERROR', states: { 'order:O-418': 'PENDING' }, legal_actions: ['cancel_order'] });
    expect(await cancel('O-417')).toMatchObject({ disposition: 'transition_error', states: { 'order:O-417': 'DELIVERED' }, legal_actions: ['issue_credit'] });
    expect(await cancel('O-419')).toMatchObject({ disposition: 'transition_error', states: { 'order:O-419': 'CANCELLED' }, legal_actions: [] });
    const limited = by(await anotherKey(house, { tools: ['get_order', 'issue_credit'] }));
    expect(await credit({ order_id: 'O-418' }, {}, limited)).toMatchObject({ disposition: 'transition_error', legal_actions: [] });
    await noWrites();
  });

  it('a read tells state and legal actions too, and no evidence of change', async () => {
    expect(await agent.order('O-418', { session_id: session })).toMatchObject({ disposition: 'executed', states: { 'order:O-418': 'PENDING' }, legal_actions: ['cancel_order'], evidence_of_change: false });
  });

  it('a precondition that fails answers with the contract’s own code and next action, names its rule, and tells the state', async () => {
    const answer = await credit({ amount: 5001 });
    expect(answer).toMatchObject({
      http: 409, disposition: 'precondition_failed', code: 'AMOUNT_EXCEEDS_BALANCE', type: '/docs/problems/PRECONDITION_FAILED', next_action: 'ask',
      states: { 'order:O-417': 'DELIVERED' }, errors: [{ code: 'AMOUNT_EXCEEDS_BALANCE', message: expect.stringContaining('within_balance') }],
    });
    await noWrites();
  });

  it('a rule that cannot be evaluated refuses and is named; it is never taken as true', async () => {
    const at = await gatewayWith(contractsWith([settle, ['check: args.amount <= order.refundable', 'check: args.amount <= order.refundable && 100 / (order.refundable - order.refundable) > 1']]));
    const answer = await credit({}, {}, by(house.keys.agent, at));
    expect(answer).toMatchObject({ http: 409, disposition: 'precondition_failed', code: 'PREDICATE_ERROR', next_action: 'escalate', errors: [{ message: expect.stringContaining('within_balance') }] });
    await noWrites();
  });

  it('a rule about approvals that cannot be evaluated asks for one: it is never taken as false', async () => {
    const at = await gatewayWith(contractsWith([settle, ['when: args.amount > 10000, by: application', 'when: 100 / (order.refundable - order.refundable) > 1, by: application']]));
    expect(await credit({}, {}, by(house.keys.agent, at))).toMatchObject({ http: 202, disposition: 'approval_required' });
    await noWrites();
  });

  it('an observation that cannot be made is `failed`, to be retried with the same ids, and nothing is written', async () => {
    await house.shop.fault({ tool: 'get_order', kind: 'commit_then_500', times: 10 });
    const answer = await credit({}, { call_id: 'c-1' });
    expect(answer).toMatchObject({ http: 502, disposition: 'failed', code: 'OBSERVATION_FAILED', next_action: 'retry', receipts: { decision: expect.stringMatching(/^rcp_/), effect: null } });
    await noWrites();
    await house.shop.reset();
    expect(await credit({}, { call_id: 'c-1' })).toMatchObject({ disposition: 'executed' });
  });

  it('an observation that came too slowly to be fresh is not decided on', async () => {
    const at = await gatewayWith(contractsWith([settle, ['max_age: 5s', 'max_age: 200ms']]));
    await house.shop.fault({ tool: 'get_order', kind: 'slow_reply', ms: 400 });
    expect(await credit({}, {}, by(house.keys.agent, at))).toMatchObject({ http: 502, code: 'OBSERVATION_FAILED', next_action: 'retry' });
    await noWrites();
    expect(await credit({}, {}, by(house.keys.agent, at))).toMatchObject({ disposition: 'executed' });
  });

  it('a request that cannot be put together is refused before anything is reserved or sent', async () => {
    const at = await gatewayWith(contractsWith([settle,
      ['customer_id: bound.customer_id }', 'customer_id: bound.customer_id, ratio: 100 / (args.amount - 13) }'],
    ]));
    expect(await credit({ amount: 13 }, {}, by(house.keys.agent, at))).toMatchObject({ http: 409, code: 'PREDICATE_ERROR', next_action: 'escalate' });
    await noWrites();
    expect(await at.control().get(`/v1/operations?session_id=${session}`)).toMatchObject({ http: 200, items: [] });
  });
});

describe('versions', () => {
  it('case-55: a version that the call names must be the present one, in each way that callers quote it', async () => {
    expect(await credit({}, { expected_version: '6' })).toMatchObject({ http: 412, disposition: 'version_conflict', code: 'VERSION_CONFLICT', next_action: 'refresh' });
    await noWrites();
    for (const [n, version] of ['7', '"8"', 'W/"9"'].entries()) expect(await credit({ amount: n + 1 }, { expected_version: version })).toMatchObject({ disposition: 'executed' });
  });

  it('case-55: what this session was last told is what its next call rests on: a change from outside is a conflict until it reads again', async () => {
    await agent.order('O-417', { session_id: session });
    await outsideCredit();
    const stale = await credit({}, { call_id: 'c-1' });
    expect(stale).toMatchObject({ http: 412, disposition: 'version_conflict', next_action: 'refresh' });
    expect(await credit({ amount: 2 }, { session_id: unique('s') })).toMatchObject({ disposition: 'executed' });
    await agent.order('O-417', { session_id: session });
    expect(await credit({}, { call_id: 'c-1' })).toMatchObject({ disposition: 'executed' });
  });

  it('its own write is no conflict for the next one, whether it had read before or not', async () => {
    expect(await credit({ amount: 1 })).toMatchObject({ disposition: 'executed' });
    expect(await credit({ amount: 2 })).toMatchObject({ disposition: 'executed' });
    await agent.order('O-417', { session_id: session });
    expect(await credit({ amount: 3 })).toMatchObject({ disposition: 'executed' });
    expect(await credit({ amount: 4 })).toMatchObject({ disposition: 'executed' });
  });

  it('a session’s reads do not bind another subject’s, principal’s or session’s calls', async () => {
    await agent.order('O-417', { session_id: session });
    await outsideCredit();
    expect(await credit({}, {}, by(house.keys.otherAgent))).toMatchObject({ disposition: 'executed' });
  });

  it('If-Match carries the observed version, so a change between the look and the write is refused by the service and has no effect', async () => {
    expect(await credit({ amount: 9 })).toMatchObject({ disposition: 'executed' });
    expect(wire.sent.find(({ method }) => method === 'POST')?.headers['if-match']).toBe('"7"');
    let once = true;
    wire.before = async () => {
      if (once) await outsideCredit();
      once = false;
    };
    expect(await credit({ amount: 10 })).toMatchObject({ http: 412, disposition: 'version_conflict', code: 'ORDER_CHANGED', next_action: 'refresh', outcome: 'rejected', evidence_of_change: false });
    expect((await house.shop.books()).credits.map(({ amount }) => amount)).toEqual([9, 1]);
  });

  it('a contract that wants the resource read first answers 428 until it was', async () => {
    const at = await gatewayWith(contractsWith([settle, ['expect: observed', 'expect: seen']]));
    const who = by(house.keys.agent, at);
    expect(await credit({}, { call_id: 'c-1' }, who)).toMatchObject({ http: 428, disposition: 'version_required', code: 'VERSION_REQUIRED', next_action: 'refresh' });
    await noWrites();
    expect(await credit({ amount: 3 }, { expected_version: '7' }, who)).toMatchObject({ disposition: 'executed' });
    await who.order('O-417', { session_id: session });
    expect(await credit({}, { call_id: 'c-1' }, who)).toMatchObject({ disposition: 'executed' });
  });
});

describe('receipts', () => {
  it('a refusal has a decision receipt with everything that it rested on', async () => {
    const answer = await credit({ amount: 5001 }, { call_id: 'c-1', intent_id: 'i-1' });
    expect(answer.receipts.effect).toBeNull();
    expect(await decisionOf(answer)).toMatchObject({
      kind: 'decision', tool: 'issue_credit', disposition: 'precondition_failed', session_id: session, intent_id: 'i-1', principal: 'agent-1', operation_id: null,
      call_id: 'c-1', contract: { version: '3.1.0', digest: answer.contract?.digest }, proposal_digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      actor: { principal: 'agent-1', roles: ['agent'], subject: 'C-17' }, purpose: 'refund', arguments: { order_id: 'O-417', amount: 5001, currency: 'GBP' },
      policy: { version: expect.stringMatching(/^sha256:/), determining: ['agents-may-use-tools', 'agents-act-on-orders-of-their-customer'] },
      observations: [{ name: 'order', source: 'get_order', version: '"7"', age_ms: expect.any(Number) }],
      transition: { entity: 'order:O-417', state: 'DELIVERED', action: 'issue_credit' }, approval: null,
      budget: { kind: 'executions', limit: 10000 }, refusal: { code: 'AMOUNT_EXCEEDS_BALANCE', problem: 'PRECONDITION_FAILED' },
    });
  });

  it('a committed call has both, joined by its operation', async () => {
    const answer = await credit({}, { call_id: 'c-1' });
    expect(await decisionOf(answer)).toMatchObject({ kind: 'decision', operation_id: answer.operation_id, disposition: 'executed', transition: { next: 'DELIVERED' }, refusal: null, generation: 1 });
    expect(await open.control().get(`/v1/receipts/${answer.receipts.effect}`)).toMatchObject({
      kind: 'effect', operation_id: answer.operation_id, outcome: 'committed',
      decision: answer.receipts.decision, idempotency_key: answer.operation_id, verified: true, attempts: [{ number: 1, sent: true, status: 201, outcome: 'committed' }], states: { 'order:O-417': 'DELIVERED' },
    });
  });

  it('are all of the caller’s tenant: another tenant’s auditor finds none of them', async () => {
    const answer = await credit();
    const foreign = await anotherKey(house, { tenant: 'globex', principal: 'their-auditor', roles: ['auditor'], subject: null, purposes: [] });
    for (const id of [answer.receipts.decision, answer.receipts.effect]) expect((await open.control(foreign).get(`/v1/receipts/${id}`)).http).toBe(404);
  });

  it('case-49: secrets in arguments, by name, by annotation and by shape, reach the service and no table, receipt or answer', async () => {
    const at = await gatewayWith(contractsWith([settle,
      ['currency: { enum: [GBP] }\n      required: [order_id, amount, currency]',
        'currency: { enum: [GBP] }\n        password: { type: string, maxLength: 80 }\n        card: { type: string, maxLength: 80 }\n        note: { type: string, maxLength: 200 }\n      required: [order_id, amount, currency]'],
      ['    verify: always\n', '    verify: always\n    redact: [/args/card]\n'],
      ['customer_id: bound.customer_id }', 'customer_id: bound.customer_id, note: "has(args.note) ? args.note : \'\'" }'],
    ]));
    const secrets = { password: 'CANARY-one', card: 'CANARY-two', note: `my token is ghp_${'C4n4ryThree'.padEnd(36, 'x')}` };
    const who = by(house.keys.agent, at);
    const good = await credit(secrets, {}, who);
    expect(good).toMatchObject({ disposition: 'executed' });
    expect(JSON.stringify(wire.sent)).toContain('C4n4ryThree');
    const refused = await credit({ ...secrets, amount: 5002 }, {}, who);
    expect(refused).toMatchObject({ disposition: 'precondition_failed' });
    const misnamed = await credit({ api_key: 'CANARY-four' }, {}, who);
    expect(misnamed).toMatchObject({ http: 422 });
    const pool = createPool({ url: house.databaseUrl, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
    const { rows: tables } = await pool.query<{ name: string }>("select table_name as name from information_schema.tables where table_schema = 'public'");
    let kept = JSON.stringify([good, refused, misnamed]);
    for (const { name } of tables) kept += JSON.stringify((await pool.query(`select t::text from ${name} t`)).rows);
    await pool.end();
    expect(tables.length).toBeGreaterThan(5);
    expect(kept.match(/CANARY-\w+|C4n4ryThree/g)).toBeNull();
    const marks = JSON.stringify(await decisionOf(refused, at)).match(/«redacted:[0-9a-f]+»/g);
    expect(marks).toHaveLength(3);
    expect(JSON.stringify(await decisionOf(good, at))).toContain(marks?.[0]);
  });
});

describe('approvals', () => {
  it('a call that needs one waits for a person; nothing is sent', async () => {
    expect(await credit({ order_id: 'O-420', amount: 10_001 })).toMatchObject({ http: 202, disposition: 'approval_required', next_action: 'ask', approval: { by: 'application' } });
    await noWrites();
  });
});

describe('what is asked later', () => {
  it('an operation is told to its own caller as it was answered, and what is done cannot be cancelled', async () => {
    const answer = await credit();
    expect(await agent.get(`/v1/operations/${answer.operation_id}`)).toMatchObject({ http: 200, disposition: 'executed', result: answer.result, receipts: answer.receipts });
    expect(await new Agent(open.gateway.agentUrl, house.keys.agent).post(`/v1/operations/${answer.operation_id}/cancel`, '{}')).toMatchObject({ http: 409, code: 'TOO_LATE' });
    expect(await new Agent(open.gateway.agentUrl, house.keys.otherTenant).post(`/v1/operations/${answer.operation_id}/cancel`, '{}')).toMatchObject({ http: 404 });
  });
});
