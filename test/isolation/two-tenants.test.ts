/**
 * Two tenants who call everything by the same names: principal, subject, sessions, turns, calls, intents, own keys, boxes. Over two replicas,
 * with answers lost and approvals given, neither meets a byte of the other; and what either is told and causes is what it would have been
 * told and would have caused alone, which a third tenant shows that does the same with nobody beside it (semantics.md section 9, invariant 5).
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { keyDigest, keyPrefix, mintKey } from '../../src/identity/api-keys.js';
import { createPool } from '../../src/ledger/connection.js';
import { openKeys } from '../../src/ledger/keys.js';
import { Agent, type House, openHouse, pepper, type Spawned, spawnGateway, unique } from '../support/gateway.js';
import { openVault, type Vault, type VaultFault, vaultFolder } from './vault.js';

const marks = { 'tenant-a': 'ALPHA-3f81', 'tenant-b': 'BRAVO-77c2', 'tenant-c': 'CHARLIE-0d19' };
type Tenant = keyof typeof marks;
const tenants = Object.keys(marks) as Tenant[];
const roles = ['agent', 'reviewer', 'auditor'] as const;
type Keys = Record<(typeof roles)[number], string>;

let vault: Vault;
let house: House;
let replicas: [Spawned, Spawned];
let keys: Record<Tenant, Keys>;
beforeAll(async () => {
  vault = await openVault(marks);
  const redisUrl = inject('redisUrl');
  house = await openHouse({
    CALLGATE_CONTRACTS_FOLDER: vaultFolder(), VAULT_URL: vault.url, CALLGATE_LOG_LEVEL: 'debug', CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms', CALLGATE_EXECUTION_PATIENCE: '40s',
    TMPDIR: mkdtempSync(join(tmpdir(), 'callgate-isolation-')), ...(redisUrl ? { REDIS_URL: redisUrl } : {}),
  });
  keys = Object.fromEntries(tenants.map((tenant) => [tenant, Object.fromEntries(roles.map((role) => [role, mintKey().key]))])) as Record<Tenant, Keys>;
  const pool = createPool({ url: house.databaseUrl, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
  for (const tenant of tenants) {
    for (const role of roles) {
      const key = keys[tenant][role];
      await openKeys(pool).saveKey({
        prefix: keyPrefix(key) as string, digest: keyDigest(pepper, key), tenant, principal: `the-${role}`, roles: [role], subject: role === 'agent' ? 'S-1' : null, purposes: [],
        tools: '*', grants: { assertSubject: false, ownKeys: true }, expiresAt: null, revokedAt: null,
      });
    }
  }
  await pool.end();
  replicas = await Promise.all([spawnGateway(house), spawnGateway(house)]);
});
afterAll(async () => {
  await Promise.all((replicas ?? []).map((replica) => replica.stop()));
  await vault.close();
  await house.close();
});

interface Step { do: 'look' | 'deposit' | 'seal' | 'approve' | 'batch' | 'context'; box: number; amount: number; session: number; call: number; own: boolean; replica: 0 | 1; fault: VaultFault | null }

const step: fc.Arbitrary<Step> = fc.record({
  do: fc.constantFrom('look', 'deposit', 'deposit', 'deposit', 'seal', 'approve', 'batch', 'context'),
  box: fc.nat(1), amount: fc.constantFrom(1, 2, 60), session: fc.nat(1), call: fc.nat(5), own: fc.boolean(), replica: fc.constantFrom(0, 1),
  fault: fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.constantFrom<VaultFault>('drop_after', 'drop_before', 'refuse') }),
});

const deposit = (call: number, more: Partial<Step> = {}): Step => ({ do: 'deposit', box: 0, amount: 2, session: 0, call, own: false, replica: 0, fault: null, ...more });
/** One of everything that the lives must not miss, however they are drawn. */
const eventful = [
  deposit(0, { fault: 'refuse' }), deposit(1), deposit(1, { replica: 1 }), deposit(2, { fault: 'drop_after' }), deposit(3, { fault: 'drop_before' }), deposit(4, { amount: 60 }), deposit(4, { do: 'approve' }), deposit(5, { do: 'batch' }),
];

interface Told { texts: string[]; plain: string[] }

/** One after another, each answered before the next, so that what a tenant is told depends on nobody's speed. */
async function live(tenant: Tenant, name: string, steps: readonly Step[]): Promise<Told> {
  const texts: string[] = [];
  const plain: string[] = [];
  const told = (text: string): void => {
    texts.push(text);
    plain.push(withoutChance(text, tenant));
  };
  for (const one of steps) {
    const { agentUrl, controlUrl } = replicas[one.replica];
    const agent = keys[tenant].agent;
    const session = `${name}-s${one.session}`;
    const proposal = (tool: string, n = 0) => ({
      tool, session_id: session, call_id: `c${one.call}-${n}`, intent_id: `i${one.call}`, turn_id: 't1', ...(one.own ? { idempotency_key: `${name}-k${one.call}-${n}` } : {}),
      arguments: { box: `${name}-b${(one.box + n) % 2}`, ...(tool === 'deposit' ? { amount: one.amount } : {}) },
    });
    if (one.fault) vault.books(tenant).faults.push(one.fault);
    if (one.do === 'context') told(inOrder(await ask(`${agentUrl}/v1/sessions/${session}/context`, agent)));
    else if (one.do === 'approve') told(await approveLast(controlUrl, tenant, session));
    else if (one.do === 'batch') {
      // Both at once: which of them would meet a fault is chance.
      vault.books(tenant).faults.length = 0;
      const calls = [proposal('deposit'), proposal('deposit', 1), proposal('look')].map(({ session_id: _, turn_id: __, intent_id: ___, ...call }) => call);
      told(await ask(`${agentUrl}/v1/batches`, agent, { session_id: session, turn_id: 't1', intent_id: `i${one.call}`, calls }));
    } else told(await ask(`${agentUrl}/v1/calls`, agent, proposal(one.do)));
    vault.books(tenant).faults.length = 0; // one that met no request is not for a later one
  }
  return { texts, plain };
}

/** What a batch saw at once stands in the order in which it was seen, which is chance. */
function inOrder(context: string): string {
  const { text, entities, ...rest } = JSON.parse(context) as { text?: string; entities?: { entity: string }[] };
  if (text === undefined || entities === undefined) return context;
  const lines = text.split('\n');
  const boxes = lines.filter((line) => line.startsWith('- box:')).sort();
  const sorted = lines.map((line) => (line.startsWith('- box:') ? (boxes.shift() as string) : line)).join('\n');
  return JSON.stringify({ ...rest, text: sorted, entities: entities.sort((one, other) => one.entity.localeCompare(other.entity)) });
}

async function approveLast(controlUrl: string, tenant: Tenant, session: string): Promise<string> {
  const { reviewer } = keys[tenant];
  const list = JSON.parse(await ask(`${controlUrl}/v1/approvals?session_id=${session}`, reviewer)) as { items: { id: string; digest: string }[] };
  const last = list.items.at(-1);
  if (!last) return 'nothing to approve';
  const decided = await ask(`${controlUrl}/v1/approvals/${last.id}/decision`, reviewer, { decision: 'approve', reason: 'fine', expected_digest: last.digest });
  const { operation_id: operation } = JSON.parse(decided) as { operation_id?: string };
  // The gateway goes on with what is approved at once: how far it was when this was told is chance, and what became of it is told next.
  return operation === undefined ? decided : `${decided.replace(/"state":"\w+"/, '"state":""')}\n${await new Agent(replicas[0].agentUrl, keys[tenant].agent).settled(operation).then((answer) => JSON.stringify(answer))}`;
}

async function ask(url: string, key: string, body?: object): Promise<string> {
  const response = await fetch(url, {
    method: body ? 'POST' : 'GET', headers: { authorization: `Bearer ${key}`, ...(body ? { 'content-type': 'application/json' } : {}) }, ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return response.text();
}

/** Ids, digests, times and whose it is differ between equal lives; nothing else may. */
function withoutChance(text: string, tenant: Tenant): string {
  return text
    .replaceAll(/\b(op|rcp|apr|rev)_[0-9A-Za-z]+/g, '$1_').replaceAll(/sha256:[0-9a-f]{64}/g, 'sha256:').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'then')
    .replaceAll(/"(ms|retry_after_ms|age_ms)":[\d.]+/g, '"$1":0').replaceAll(/"salt":"[^"]*"/g, '"salt":""').replaceAll(/"trace":\[[^\]]*\]/g, '"trace":[]').replaceAll(/«redacted:[^»]*»/g, '«»')
    .replaceAll(vault.mark(tenant), 'MARK').replaceAll(tenant, 'TENANT');
}

/** Everything that people of this tenant can list or open. */
async function records(tenant: Tenant): Promise<string[]> {
  const { controlUrl } = replicas[1];
  const { auditor, reviewer } = keys[tenant];
  const lists = await Promise.all(['/v1/receipts?limit=500', '/v1/operations?limit=500', '/v1/reviews', '/v1/approvals', '/v1/contracts', '/v1/receipts/keys'].map((path) => ask(controlUrl + path, path.startsWith('/v1/a') || path.startsWith('/v1/rev') ? reviewer : auditor)));
  const ids = [...new Set(lists.join().match(/\b(op|rcp)_[0-9A-Za-z]+/g) ?? [])].slice(0, 60);
  return [...lists, ...(await Promise.all(ids.map((id) => ask(`${controlUrl}/v1/${id.startsWith('op_') ? 'operations' : 'receipts'}/${id}`, auditor))))];
}

function expectNothingOf(others: readonly Tenant[], texts: readonly string[]): void {
  for (const text of texts) for (const other of others) {
    expect(text).not.toContain(vault.mark(other));
    expect(text).not.toContain(other);
  }
}

it('two lives at once under the same names: neither meets the other, and each is as it is alone', async () => {
  const seen = { effects: 0, approved: 0, lost: 0, refused: 0 };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 12 }), fc.array(step, { minLength: 5, maxLength: 12 }), async (first, second) => {
    const name = unique('n');
    const before = Object.fromEntries(tenants.map((tenant) => [tenant, vault.books(tenant).effects.length])) as Record<Tenant, number>;
    /** In their order on each box; calls of a batch on different boxes run at once. */
    const effects = (tenant: Tenant) => vault.books(tenant).effects.slice(before[tenant]).map(({ box, amount }) => ({ box, amount })).sort((one, other) => one.box.localeCompare(other.box));
    const [a, b] = await Promise.all([live('tenant-a', name, first), live('tenant-b', name, second)]);
    expectNothingOf(['tenant-b', 'tenant-c'], a.texts);
    expectNothingOf(['tenant-a', 'tenant-c'], b.texts);
    const alone = await live('tenant-c', name, first);
    expect(a.plain).toEqual(alone.plain);
    expect(effects('tenant-a')).toEqual(effects('tenant-c'));
    expectNothingOf(['tenant-b', 'tenant-c'], await records('tenant-a'));
    expectNothingOf(['tenant-a', 'tenant-c'], await records('tenant-b'));

    const keysOf = (tenant: Tenant) => vault.books(tenant).effects.map(({ key }) => key);
    expect(keysOf('tenant-a').filter((key) => keysOf('tenant-b').includes(key))).toEqual([]);
    seen.effects += effects('tenant-a').length;
    const all = a.texts.join();
    seen.approved += all.includes('"approval_required"') && all.includes('"decision":"approve') ? 1 : 0;
    seen.lost += first.some(({ fault, do: what }) => what === 'deposit' && (fault === 'drop_after' || fault === 'drop_before')) ? 1 : 0;
    seen.refused += all.includes('VAULT_REFUSED') ? 1 : 0;
  }), { numRuns: 25, endOnFailure: true, examples: [[eventful, eventful.toReversed()]] });
  expect(seen.effects).toBeGreaterThan(25);
  expect(seen.lost).toBeGreaterThan(2);
  expect(seen.refused).toBeGreaterThan(0);
  expect(seen.approved).toBeGreaterThan(0);
}, 300_000);

it('what has no tenant has nothing of one: metrics, logs', async () => {
  const metrics = await Promise.all(replicas.map(({ controlUrl }) => ask(`${controlUrl}/metrics`, keys['tenant-a'].auditor)));
  expectNothingOf(tenants, metrics);
  for (const replica of replicas) {
    const log = replica.stdout() + replica.stderr();
    for (const tenant of tenants) expect(log).not.toContain(vault.mark(tenant));
  }
});

it('an id of the other is an id of nobody', async () => {
  const mine = JSON.parse(await ask(`${replicas[0].controlUrl}/v1/operations?limit=1`, keys['tenant-a'].auditor)) as { items: { id: string; decision_receipt: string }[] };
  const { id, decision_receipt: receipt } = mine.items[0] as { id: string; decision_receipt: string };
  const none = `${id.slice(0, -4)}zzzz`;
  for (const [url, key, made] of [
    [`${replicas[0].agentUrl}/v1/operations/`, keys['tenant-b'].agent, id], [`${replicas[1].controlUrl}/v1/operations/`, keys['tenant-b'].auditor, id],
    [`${replicas[1].controlUrl}/v1/receipts/`, keys['tenant-b'].auditor, receipt],
  ] as const) {
    const theirs = withoutChance(await ask(url + made, key), 'tenant-b');
    expect(theirs).toBe(withoutChance(await ask(url + (made === id ? none : 'rcp_01AAAAAAAAAAAAAAAAAAAAAAAA'), key), 'tenant-b'));
    expect(theirs).toContain('"status":404');
  }
});

it('the database holds each tenant’s marks in that tenant’s rows alone', async () => {
  const client = new pg.Client({ connectionString: house.databaseUrl });
  await client.connect();
  const { rows: tables } = await client.query<{ name: string }>("select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'tenant'");
  let rowsSeen = 0;
  for (const { name } of tables) {
    const { rows } = await client.query<{ tenant: string; text: string }>(`select tenant, row_to_json(t)::text as text from "${name}" t`);
    rowsSeen += rows.length;
    for (const { tenant, text } of rows) expectNothingOf(tenants.filter((other) => other !== tenant), [text]);
  }
  await client.end();
  expect(rowsSeen).toBeGreaterThan(100);
});
