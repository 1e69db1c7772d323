/** What people ask of the control listener over a large ledger: every filter, for what is frequent, what was last seen long ago and what there never was. */
import { percentiles } from '../figures.mjs';
import { ask } from '../database.mjs';
import { tenantName } from './ledger.mjs';

const againTimes = 9;

/** @returns `[{what, cold, p50, worst, items, more}]` in ms; `cold` is the first time that it is asked of a Postgres that was started for it */
export async function measureQuestions({ tenant }, { controlUrl, key }) {
  const results = [];
  for (const [what, path] of await questions(tenant.databaseUrl, async (path) => (await get(controlUrl, key, path)).body)) {
    const { ms: cold, body } = await get(controlUrl, key, path);
    const warm = [];
    for (let n = 0; n < againTimes; n++) warm.push((await get(controlUrl, key, path)).ms);
    results.push({ what, cold, p50: percentiles(warm).p50, worst: Math.max(...warm), items: body.items?.length ?? null, more: Boolean(body.next_cursor) });
  }
  return results;
}

async function get(url, key, path) {
  const begun = performance.now();
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } });
  const body = await response.json();
  const ms = performance.now() - begun;
  if (!response.ok) throw new Error(`${path} was answered with ${response.status}: ${JSON.stringify(body)}`);
  return { ms, body };
}

async function questions(databaseUrl, read) {
  const [some] = await ask(databaseUrl, `select o.session_id, o.intent_id, o.operation_id, o.decision_receipt, o.created_at from operations o
    where o.tenant = '${tenantName}' and o.intent_id <> '' and o.created_at < now() - interval '20 days' order by o.created_at desc limit 1`);
  const [ended] = await ask(databaseUrl, `select min(created_at) as first, min(created_at) + (max(created_at) - min(created_at)) / 2 as middle from operations where tenant = '${tenantName}'`);
  const at = (date) => date.toISOString();
  const shared = {
    session_id: [some.session_id, 'nobody'], intent_id: [some.intent_id, 'nobody'], tool: ['issue_credit', 'quote_credit', 'nobody'], principal: ['agent-4', 'agent-rare', 'nobody'],
    outcome: ['committed', 'not_committed', 'accepted'], from: [at(ended.middle)], to: [at(ended.middle), at(new Date(ended.first.getTime() + 3_600_000))],
  };
  const lists = [['receipts', { ...shared, disposition: ['executed', 'blocked_tool', 'version_conflict'] }], ['operations', { ...shared, state: ['committed', 'parked', 'sending', 'rejected', 'failed'] }]];
  const asked = [];
  for (const [list, filters] of lists) {
    const add = (filter) => asked.push([`${list}${Object.entries(filter).map(([name, value]) => ` ${name}=${name === 'cursor' ? 'deep' : value}`).join('')}`, `/v1/${list}?${new URLSearchParams(filter)}`]);
    add({});
    for (const [name, values] of Object.entries(filters)) for (const value of values) add({ [name]: value });
    add({ tool: 'issue_credit', principal: 'agent-rare' });
    add({ tool: 'quote_credit', outcome: 'committed', from: shared.to[0] });
    add({ principal: 'nobody', outcome: 'not_committed' });
    add({ session_id: some.session_id, intent_id: some.intent_id, tool: 'issue_credit', principal: 'nobody' });
    const { next_cursor: cursor } = await read(`/v1/${list}?limit=1&to=${at(ended.middle)}`);
    add({ cursor });
    add({ cursor, tool: 'nobody' });
    add({ limit: '500' });
  }
  asked.push(['one receipt', `/v1/receipts/${some.decision_receipt}`], ['one operation with its story', `/v1/operations/${some.operation_id}`]);
  for (const state of ['pending', 'ended']) asked.push([`approvals ${state}`, `/v1/approvals?state=${state}`], [`approvals ${state} principal=nobody`, `/v1/approvals?state=${state}&principal=nobody`]);
  for (const state of ['open', 'decided']) asked.push([`reviews ${state}`, `/v1/reviews?state=${state}`], [`reviews ${state} tool=nobody`, `/v1/reviews?state=${state}&tool=nobody`]);
  return asked;
}
