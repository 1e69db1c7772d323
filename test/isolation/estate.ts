/** What others have: operations in every state, with their receipts, approvals, reviews and sessions, made through a gateway as they would be. */
import type pg from 'pg';
import { expect } from 'vitest';
import { changedContracts } from '../recovery/quick.js';
import { calmEnv, intoReview, seeing } from '../people/reviews.js';
import { type Agent, type House, openGateway, type Sent, unique } from '../support/gateway.js';

/** By where they are asked for. */
export interface Estate { operations: string[]; receipts: string[]; approvals: string[]; reviews: string[]; sessions: string[]; intents: string[] }

/** Approvals begin low enough for every order, and the service tells by itself as well. */
export const lowApprovals: [string, string][] = [['args.amount > 10000', 'args.amount > 2600'], ['args.amount > 40000', 'args.amount > 2800']];
export const estateContracts = (): string => changedContracts(lowApprovals);

interface Owner { key: string; order: string | null; application: string | null; tenant: string; principal: string; subject: string }

/** One owner after another: a review holds its order until somebody decides. */
export async function buildEstates(house: House, database: pg.Client, owners: readonly Owner[]): Promise<Estate[]> {
  const sight = { blind: false };
  const open = await openGateway(house, { ...calmEnv(lowApprovals), CALLGATE_RECONCILE_DEADLINE: '1s', CALLGATE_EXECUTION_PATIENCE: '5s' }, seeing(sight));
  const estates: Estate[] = [];
  for (const owner of owners) {
    const agent = open.as(owner.key);
    const session = unique('their-session');
    const intent = unique('their-intent');
    const told = [await agent.call({ session_id: session, intent_id: intent, tool: 'convert_temperature', arguments: { value: 1, from_unit: 'C', to_unit: 'F' } })];
    if (owner.order) {
      told.push(...await writes(agent, session, owner.order));
      await intoReview(house, { ...open, agent }, sight, owner.order, 'commit_then_drop');
      sight.blind = false;
    }
    if (owner.application) await open.control(owner.application).put(`/v1/sessions/${session}`, {});
    expect(told.map(({ http }) => http)).toEqual(told.map(() => expect.toSatisfy((status: number) => status < 300)));
    estates.push(await estateOf(database, owner, session, intent));
  }
  await open.gateway.close();
  return estates;
}

/** Committed; taken back; waiting for an application, and for reviewers; cancelled. */
async function writes(agent: Agent, session: string, order: string): Promise<Sent[]> {
  const credit = (amount: number): Promise<Sent> => agent.credit({ session_id: session, call_id: unique('c'), arguments: { order_id: order, amount } });
  const committed = [await credit(11), await credit(12)];
  const undo = await agent.call({ session_id: session, ...(committed[1]?.compensate as { tool: string; arguments: object }) });
  const parked = [await credit(2601), await credit(2801), await credit(2602)];
  const cancelled = await agent.post(`/v1/operations/${parked[2]?.operation_id}/cancel`, '');
  expect([undo.disposition, ...parked.map(({ disposition }) => disposition), cancelled.disposition]).toEqual(['executed', 'approval_required', 'approval_required', 'approval_required', 'cancelled']);
  return [...committed, undo, ...parked];
}

async function estateOf(database: pg.Client, { tenant, principal, subject }: Owner, session: string, intent: string): Promise<Estate> {
  const ids = async (text: string): Promise<string[]> => (await database.query<{ id: string }>(text, [tenant, principal, subject])).rows.map(({ id }) => id);
  const operations = await ids('select operation_id as id from operations where tenant = $1 and principal = $2 and subject = $3');
  const of = (column: string, table: string): string =>
    `select t.${column} as id from ${table} t join operations o on o.tenant = t.tenant and o.operation_id = t.operation_id where o.tenant = $1 and o.principal = $2 and o.subject = $3`;
  return {
    operations, receipts: await ids(of('id', 'receipts')), approvals: await ids(of('id', 'approvals')), reviews: await ids(of('id', 'reviews')),
    sessions: [session], intents: [intent],
  };
}
