/**
 * A few hundred calls of several kinds, made by real gateways: the rows that bench/scale/multiply.mjs makes millions of.
 *
 * Whatever is a conversation's own has the marker in its name, so that a copy gets names of its own wherever they are kept. The letter behind it says
 * how often a conversation is copied: common, uncommon, rare (a handful, long ago) or open (what is still to be decided, of today).
 */

/** As long as the number of a copy, which takes its place. */
export const marker = '70707070';

/** Calls of each common conversation; the last ones are as long as sessions get. */
const lengths = [3, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 8, 8, 9, 10, 11, 12, 14, 15, 16, 18, 20, 24, 30];

export const principals = { common: ['agent-1', 'agent-2', 'agent-3', 'agent-4'], uncommon: 'agent-5', rare: 'agent-rare' };

/**
 * @param desk `{url, keyOf(principal)}` of a gateway with bench/contracts
 * @param shop the same of one with examples/retail/contracts, and `controlUrl`, `applicationKey`, `fault(order)`
 */
export async function seed({ desk, shop }) {
  for (const [n, length] of lengths.entries()) await common(desk, n, length);
  await uncommon(shop);
  await rare(shop);
  await open(shop);
  await reviewed(shop); // and holds its order from then on
}

const two = (n) => String(n).padStart(2, '0');
const named = (what, kind, n) => `${what}-${marker}-${kind}${two(n)}`;

async function common(desk, n, length) {
  const key = desk.keyOf(principals.common[n % principals.common.length]);
  const session = named('session', 'c', n);
  const intent = n % 2 === 0 ? { intent_id: named('intent', 'c', n) } : {};
  const turn = n % 3 === 0 ? { turn_id: named('turn', 'c', n) } : {};
  for (let at = 0; at < length; at++) {
    const call = (tool, args, id = at) => say(desk, key, { session_id: session, ...intent, ...turn, call_id: `${named('call', 'c', n)}-${two(id)}`, tool, arguments: args });
    const credit = (amount, order = at) => ({ order_id: `O-${marker}${two(n)}${two(order)}`, amount, currency: 'GBP' });
    const kind = (at * 7 + n * 3) % 20;
    if (kind < 4) await call('convert_temperature', { value: at });
    else if (kind === 4) await call('issue_credit', credit(9_000)); // more than is left of the order
    else if (kind === 5) await call('issue_credit', { order_id: `O-${marker}${two(n)}${two(at)}`, amount: 'many', currency: 'GBP' });
    else if (kind === 6) {
      await call('issue_credit', credit(100 + at));
      await call('issue_credit', credit(100 + at));
    } else await call('issue_credit', credit(100 + at));
  }
}

/** What goes otherwise than usual: approvals, refusals, what the service refuses, and what a person has to look at. */
async function uncommon(shop) {
  const key = shop.keyOf(principals.uncommon);
  const order = (amount, order_id = 'O-420') => ({ order_id, amount, currency: 'GBP' });
  const call = (n, id, tool, args) => say(shop, key, { session_id: named('session', 'u', n), intent_id: named('intent', 'u', n), call_id: named(`call-${id}`, 'u', n), tool, arguments: args });
  await call(1, 1, 'get_order', { order_id: 'O-420' });
  await decide(shop, 'approvals', await call(1, 2, 'issue_credit', order(10_001)), { decision: 'approve' });
  await decide(shop, 'approvals', await call(2, 1, 'issue_credit', order(10_002)), { decision: 'reject', reason: 'too much' });
  await call(3, 1, 'issue_credit', order(10, 'O-418'));
  await call(3, 2, 'issue_credit', order(10, 'O-900'));
  await call(3, 3, 'void_credit', { receipt_id: 'rc_none' });
  await call(3, 4, 'no_such_tool', {});
  await shop.fault({ tool: 'issue_credit', kind: '503_not_started', times: 3 });
  await call(4, 1, 'issue_credit', order(11, 'O-417'));
}

async function reviewed(shop) {
  await shop.fault({ tool: 'issue_credit', kind: 'double_effect' });
  await say(shop, shop.keyOf(principals.uncommon), { session_id: named('session', 'o', 3), call_id: named('call', 'o', 3), tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 13, currency: 'GBP' } });
}

async function rare(shop) {
  const key = shop.keyOf(principals.rare);
  const call = (id, tool, args) => say(shop, key, { session_id: named('session', 'r', 1), intent_id: named('intent', 'r', 1), call_id: named(`call-${id}`, 'r', 1), tool, arguments: args });
  await call(1, 'quote_credit', { order_id: 'O-417', amount: 100 });
  await call(2, 'cancel_order', { order_id: 'O-418' });
  await call(3, 'issue_credit', { order_id: 'O-417', amount: 12, currency: 'GBP' });
}

async function open(shop) {
  const key = shop.keyOf(principals.uncommon);
  const call = (n, amount) => say(shop, key, { session_id: named('session', 'o', n), call_id: named('call', 'o', n), tool: 'issue_credit', arguments: { order_id: 'O-420', amount, currency: 'GBP' } });
  await call(1, 10_003);
  await call(2, 40_001);
}

async function say({ url }, key, body) {
  const response = await fetch(`${url}/v1/calls`, { method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const answer = await response.json();
  if (response.status >= 500) throw new Error(`a call of the seed was answered with ${response.status}: ${JSON.stringify(answer)}`);
  return answer;
}

/** Decides, and waits until the operation has ended. */
async function decide({ url, keyOf, controlUrl, applicationKey }, what, { approval, operation_id }, decision) {
  if (!approval) throw new Error('the seed got no approval to decide on');
  const headers = { authorization: `Bearer ${applicationKey}`, 'content-type': 'application/json' };
  const response = await fetch(`${controlUrl}/v1/${what}/${approval.id}/decision`, { method: 'POST', headers, body: JSON.stringify({ ...decision, expected_digest: approval.digest }) });
  if (!response.ok) throw new Error(`a decision of the seed was refused: ${await response.text()}`);
  await fetch(`${url}/v1/operations/${operation_id}`, { headers: { authorization: `Bearer ${keyOf(principals.uncommon)}`, prefer: 'wait=10' } });
}
