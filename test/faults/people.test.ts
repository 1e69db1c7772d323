import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { answerLeftBehind, isLeftBehind } from '../../faults/approvers.js';
import { openCallers } from '../../faults/callers.js';
import { type History, newHistory, type Said, type Told, type Verdict } from '../../faults/history.js';
import type { House } from '../../faults/house.js';
import type { Intent, Step } from '../../faults/plan.js';

/**
 * Agents and people of the fault suite do what real ones do, against a gateway of a few lines. If this is lost, the suite leaves calls behind that nobody
 * answers and calls the gateway stuck, or answers what is really stuck and calls it sound.
 */
type Body = Record<string, unknown>;
type Reply = { http: number; body: object };
let server: Server;
afterEach(() => void server.close());

/** Every replica, both doors. */
async function houseOf(answer: (path: string, body: Body) => Reply): Promise<House> {
  server = createServer((request, response) => void bodyOf(request).then((body) => {
    const { http, body: said } = answer(request.url as string, body);
    response.writeHead(http, { 'content-type': 'application/json' }).end(JSON.stringify(said));
  }));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const people = { application: 'a', reviewers: ['r1', 'r2', 'r3'], auditor: 'u' };
  return { fleet: { any: () => ({ agentUrl: url, controlUrl: url }) }, keys: { agents: { 0: 'k', 1: 'k', 2: 'k' }, people: { acme: people, globex: people } } } as unknown as House;
}

async function bodyOf(request: IncomingMessage): Promise<Body> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text === '' ? {} : JSON.parse(text) as Body;
}

const intent = (id: string, amount: number, change: Partial<Intent> = {}): Intent =>
  ({ id, customer: 0, tool: 'issue_credit', args: { order_id: 'O-1', amount, currency: 'GBP' }, envelope: {}, expects: 'effect', verdict: 'reject', ...change });
const stepOf = (intents: Intent[], change: Partial<Step> = {}): Step => ({
  n: 0, kind: 'batch', session: 's', intentId: null, intents, proposals: [{ form: 'batch', ids: 'a', replica: 0, pauseMs: 0 }], together: false, patience: 0, givesUp: false, faults: [],
  budget: null, voids: null, ...change,
});

/** Over 10,000 a call waits for a person, and no other of its batch goes before it is answered; decisions are answered 503 at first. */
function gateway(unheard: number) {
  const asked: { id: string; rejected: boolean }[] = [];
  let decisions = 0;
  const decided = (id: string): Reply => {
    if (decisions++ < unheard) return { http: 503, body: { disposition: 'unavailable' } };
    for (const one of asked) if (one.id === id) one.rejected = true;
    return { http: 200, body: {} };
  };
  const called = (amount: number): object => {
    if (amount <= 10_000) {
      return asked.some(({ rejected }) => !rejected) ? { status: 409, disposition: 'precondition_failed', code: 'PREDECESSOR_UNKNOWN', next_action: 'wait', outcome: null }
        : { status: 200, disposition: 'executed', next_action: 'continue', outcome: 'committed', operation_id: 'op_plain', result: { receipt_id: 'CR-1' } };
    }
    const id = `apr_${asked.push({ id: `apr_${asked.length + 1}`, rejected: false })}`;
    return { status: 202, disposition: 'approval_required', next_action: 'ask', outcome: null, operation_id: id, approval: { id, digest: 'd', summary: 's', by: 'application' } };
  };
  const answer = (path: string, body: Body): Reply => {
    const id = path.split('/')[3] as string;
    if (path === '/v1/batches') return { http: 200, body: { results: (body['calls'] as { arguments: { amount: number } }[]).map((one) => called(one.arguments.amount)) } };
    if (path.startsWith('/v1/approvals/')) return decided(id);
    return asked.some((one) => one.id === id && one.rejected) ? { http: 403, body: { disposition: 'denied', code: 'APPROVAL_REJECTED', next_action: 'abandon', outcome: 'not_committed', operation_id: id } }
      : { http: 202, body: { disposition: 'approval_required', next_action: 'ask', outcome: null, operation_id: id } };
  };
  return { asked, answer };
}

describe('a caller', () => {
  it('whose call a person has refused does not ask for it again, and proposes the rest of its batch as a plan of its own, which then goes', async () => {
    const { asked, answer } = gateway(0);
    const history = newHistory();
    await openCallers(await houseOf(answer), history).finish(stepOf([intent('big', 20_000), intent('small', 100)]), performance.now() + 5_000);
    expect(history.told.map(({ final }) => final?.disposition)).toEqual(['denied', 'executed']);
    expect(asked).toHaveLength(1);
  });
});

describe('callers who share a budget', () => {
  it('ask again for what came back to it after they were refused: a person said no to a call that had the only place', async () => {
    let isTaken = true;
    let rejected = false;
    let followed = 0;
    const answer = (path: string, body: Body): Reply => {
      if (path.endsWith('/decision')) {
        rejected = true;
        isTaken = false;
        return { http: 200, body: {} };
      }
      if (path.startsWith('/v1/operations/')) {
        followed++;
        return { http: 403, body: { disposition: 'denied', code: 'APPROVAL_REJECTED', next_action: 'abandon', outcome: 'not_committed', operation_id: 'op_big' } };
      }
      return { http: 200, body: { results: (body['calls'] as { arguments: { amount: number } }[]).map(({ arguments: { amount } }) =>
        amount > 10_000 ? { status: 202, disposition: 'approval_required', next_action: 'ask', outcome: null, operation_id: 'op_big', approval: { id: 'apr_1', digest: 'd', summary: 's', by: 'application' } }
          : isTaken ? { status: 429, disposition: 'budget_exhausted', code: 'BUDGET_EXHAUSTED', next_action: 'escalate', outcome: null, operation_id: null }
            : { status: 200, disposition: 'executed', next_action: 'continue', outcome: 'committed', operation_id: 'op_small', result: { receipt_id: 'CR-1' } }) } };
    };
    const history = newHistory();
    const step = stepOf([intent('small', 100, { expects: 'budgeted' }), intent('big', 20_000, { expects: 'budgeted' })], { budget: 1 });
    await openCallers(await houseOf(answer), history).finish(step, performance.now() + 10_000);
    expect([rejected, followed > 0]).toEqual([true, true]);
    expect(history.told.map(({ final }) => final?.disposition)).toEqual(['executed', 'denied']);
  });
});

describe('a person', () => {
  it('whose decision was not heard decides again', async () => {
    const { answer } = gateway(3);
    const history = newHistory();
    await openCallers(await houseOf(answer), history).finish(stepOf([intent('big', 20_000)]), performance.now() + 5_000);
    expect(history.told[0]?.verdicts.map(({ http }) => http)).toEqual([503, 503, 503, 200, 200]);
    expect(history.told[0]?.final).toMatchObject({ code: 'APPROVAL_REJECTED' });
  });

  const said = (change: Partial<Said>): Said => ({
    askedAt: 0, at: 1, http: 202, disposition: 'approval_required', next: 'ask', outcome: null, verified: false, operationId: 'op_1', code: null, result: 'null', receiptId: null,
    evidenceOfChange: false, receipts: { decision: null, effect: null }, ...change,
  });
  const verdict = (http: number, decision: 'approve' | 'reject' = 'approve', approval = 'apr_1'): Verdict => ({ approval, decision, by: 'reviewer-1', http, summary: 's', digest: 'd' });
  const rejected = said({ http: 403, disposition: 'denied', code: 'APPROVAL_REJECTED', operationId: 'op_0' });
  const told = (givesUp: boolean, change: Partial<Told> = {}): Told =>
    ({ intent: intent('a', 20_000), step: { n: 0, kind: 'single', session: 's', budget: null, givesUp }, said: [], cut: 1, verdicts: [], final: null, endedAt: null, ...change });
  const waiting = { id: 'apr_1', operation_id: 'op_1', approved_by: [] as string[] };
  const cases: [boolean, string, Told, string[]?][] = [
    [true, 'its caller gave up and was told nothing of it', told(true, { said: [said({ http: 503, disposition: 'unavailable', operationId: null })] })],
    [true, 'its caller gave up, and a person was not heard', told(true, { said: [said({})], verdicts: [verdict(503)] })],
    [true, 'its caller gave up, one of two was heard and kept, and the other not', told(true, { said: [said({})], verdicts: [verdict(200), { ...verdict(0), by: 'reviewer-2' }] }), ['reviewer-1']],
    [true, 'an earlier one like it was refused', told(false, { said: [rejected], final: rejected, verdicts: [verdict(200, 'reject', 'apr_0')] })],
    [false, 'its caller has not given up', told(false)],
    [false, 'its caller gave up, and everybody was heard', told(true, { said: [said({})], verdicts: [verdict(409)] })],
    [false, 'this very one was refused, and that was acknowledged', told(false, { said: [rejected], final: rejected, verdicts: [verdict(200, 'reject')] })],
    [false, 'it was approved and acknowledged, and that was not kept', told(true, { said: [said({})], verdicts: [verdict(200), verdict(503)] })],
  ];
  it.each(cases)('answers %s: %s', (isSo, _, of, approvedBy = []) => { expect(isLeftBehind(of, { ...waiting, approved_by: approvedBy })).toBe(isSo); });

  it('says no to what was left behind, and leaves waiting whatever waits for another reason', async () => {
    const history: History = { ...newHistory(), told: [told(true), { ...told(false), intent: intent('b', 30_000) }] };
    const decided: [string, unknown][] = [];
    const amounts: Record<string, number> = { apr_1: 20_000, apr_2: 30_000, apr_3: 40_000 };
    await answerLeftBehind(await houseOf((path, body) => {
      const id = path.split('/')[3];
      if (path.endsWith('/decision')) decided.push([id as string, body]);
      if (!id) return { http: 200, body: { items: decided.length > 0 ? [] : Object.keys(amounts).map((one) => ({ id: one })) } };
      return { http: 200, body: { id, operation_id: `op_${id}`, approved_by: [], digest: `digest of ${id}`, summary: 's', tool: 'issue_credit', subject: 'C-17', arguments: intent('', amounts[id] as number).args } };
    }), history);
    expect(decided).toEqual([['apr_1', { decision: 'reject', reason: 'whoever asked has gone', expected_digest: 'digest of apr_1' }]]);
    expect(history.told.map(({ verdicts }) => verdicts.map(({ http, by }) => `${http} ${by}`))).toEqual([['200 reviewer-3'], []]);
  });
});
