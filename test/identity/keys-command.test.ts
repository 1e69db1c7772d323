/**
 * A key that was taken from an agent must open nothing, on no replica, from the moment at which the operator is told so; and a key is replaced
 * without an agent that has none in between.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import pg from 'pg';
import { keys } from '../../src/cli/keys.js';
import { UsageError } from '../../src/cli/usage.js';
import { type Agent, type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';

let house: House;
let client: pg.Client;
beforeAll(async () => {
  house = await openHouse();
  client = new pg.Client({ connectionString: house.databaseUrl });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await house.close();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

async function run(...args: string[]): Promise<{ out: string; err: string }> {
  for (const name of Object.keys(process.env)) if (name.startsWith('CALLGATE_')) vi.stubEnv(name, '');
  for (const [name, value] of Object.entries(house.env)) if (name.startsWith('CALLGATE_') || name === 'DATABASE_URL') vi.stubEnv(name, value);
  const told: Record<'log' | 'error', string[]> = { log: [], error: [] };
  for (const stream of ['log', 'error'] as const) vi.spyOn(console, stream).mockImplementation((text: string) => void told[stream].push(text));
  expect(await keys(args)).toBe(0);
  return { out: told.log.join('\n'), err: told.error.join('\n') };
}
const createAgent = async (...more: string[]): Promise<string> => (await run('create', '--tenant', 'acme', '--principal', unique('p'), '--role', 'agent', '--subject', 'C-17', '--purpose', 'refund', ...more)).out;
const prefixOf = (key: string): string => key.slice(0, 11);
interface Listed { prefix: string; state: string; roles: string[]; tools: unknown; own_keys: boolean; created_at: string; expires_at: string | null; revoked_at: string | null }
const listed = async (key: string): Promise<Listed | undefined> => (JSON.parse((await run('list', '--format', 'json')).out) as Listed[]).find(({ prefix }) => prefix === prefixOf(key));
const status = async (agent: Agent): Promise<number> => (await fetch(`${agent.url}/v1/tools`, { headers: { authorization: `Bearer ${agent.key}` } })).status;

describe('keys list', () => {
  it('has each key by its prefix with its rights, its times and its state, and nothing that opens anything', async () => {
    const key = await createAgent('--tool', 'get_order', '--own-keys', '--expires', '90d');
    expect(await listed(key)).toEqual({
      prefix: prefixOf(key), tenant: 'acme', principal: expect.any(String), roles: ['agent'], subject: 'C-17', purposes: ['refund'], tools: ['get_order'], own_keys: true, assert_subject: false,
      created_at: expect.stringMatching(/Z$/), expires_at: expect.stringMatching(/Z$/), revoked_at: null, state: 'active',
    });
    await client.query("update api_keys set expires_at = now() - interval '1 second' where prefix = $1", [prefixOf(key)]);
    expect(await listed(key)).toMatchObject({ state: 'expired' });
    const human = await run('list', '--tenant', 'acme');
    expect(human.out.split('\n')[0]).toMatch(/^PREFIX +STATE +TENANT +PRINCIPAL +ROLES +SUBJECT +PURPOSES +TOOLS +CREATED +ENDS$/);
    expect(human.out).toMatch(new RegExp(`^${prefixOf(key)} +expired +acme .* agent +C-17 +refund +get_order `, 'm'));
    expect(human.out).not.toContain('globex');
    for (const secret of [key.slice(12), ...Object.values(house.keys).map((each) => each.slice(12))]) expect(human.out).not.toContain(secret);
    expect((await run('list')).out).toContain('globex');
  });
});

describe('with two replicas', () => {
  let replicas: Opened[];
  beforeAll(async () => {
    replicas = [await openGateway(house), await openGateway(house)];
  });
  afterAll(() => Promise.all(replicas.map(({ gateway }) => gateway.close())));
  const agents = (key: string): Agent[] => replicas.map(({ as }) => as(key));

  it('revoke: none takes the key once the command has returned, although each had it at hand a moment before; nor does it come back', async () => {
    const key = await createAgent();
    const bystander = await createAgent();
    expect(await Promise.all(agents(key).map(status))).toEqual([200, 200]);
    // Asked all the while, so that no replica lets its record grow old for want of calls.
    let lastTaken = 0;
    let over = false;
    const hammer = agents(key).map(async (agent) => {
      while (!over) if ((await status(agent)) === 200) lastTaken = performance.now();
    });
    const began = performance.now();
    const { out } = await run('revoke', prefixOf(key));
    const returned = performance.now();
    expect(out).toBe(`revoked: ${prefixOf(key)}`);
    for (let n = 0; n < 5; n++) expect(await Promise.all(agents(key).map(status))).toEqual([401, 401]);
    over = true;
    await Promise.all(hammer);
    expect(lastTaken).toBeGreaterThan(0);
    expect(lastTaken).toBeLessThan(returned);
    // the bound of `identity.key_cache`, and what the command itself takes
    expect(lastTaken - began).toBeLessThan(1_000 + 1_000);
    expect(await Promise.all(agents(bystander).map(status))).toEqual([200, 200]);
    expect(await listed(key)).toMatchObject({ state: 'revoked', revoked_at: expect.stringMatching(/Z$/) });
    const when = (await listed(key))?.revoked_at;
    await run('revoke', prefixOf(key));
    expect((await listed(key))?.revoked_at).toBe(when);
    await expect(run('rotate', prefixOf(key))).rejects.toThrow('no key that is in force');
  });

  it('rotate: both keys are the same caller for the overlap, and then only the new one', async () => {
    const old = await createAgent('--tool', 'convert_temperature', '--expires', '90d');
    const { out: fresh, err } = await run('rotate', prefixOf(old), '--overlap', '30m');
    expect(err).toContain(`\`${prefixOf(old)}\` is valid until `);
    expect(await Promise.all([old, fresh].flatMap(agents).map(status))).toEqual([200, 200, 200, 200]);
    const [before, after] = [(await listed(old)) as Listed, (await listed(fresh)) as Listed];
    const { prefix: _, created_at: __, expires_at: oldEnd, ...rights } = before;
    expect(after).toMatchObject(rights);
    expect(Date.parse(oldEnd ?? '') - Date.now()).toBeGreaterThan(29 * 60_000);
    expect(Date.parse(oldEnd ?? '') - Date.now()).toBeLessThan(31 * 60_000);
    // the same lifetime again
    expect(Math.round((Date.parse(after.expires_at ?? '') - Date.parse(after.created_at)) / 86_400_000)).toBe(90);

    await client.query("update api_keys set expires_at = now() - interval '1 second' where prefix = $1", [prefixOf(old)]);
    await expect.poll(() => Promise.all(agents(old).map(status)), { timeout: 3_000 }).toEqual([401, 401]);
    expect(await Promise.all(agents(fresh).map(status))).toEqual([200, 200]);
  });

  it('rotate: an operation that the old key began is answered to the new one', async () => {
    const old = await createAgent();
    const call = { session_id: unique('s'), call_id: 'c-1' };
    const first = await replicas[0]!.as(old).credit(call);
    expect(first).toMatchObject({ disposition: 'executed' });
    const { out: fresh } = await run('rotate', prefixOf(old), '--overlap', '0m');
    const again = await replicas[1]!.as(fresh).credit(call);
    expect(again).toMatchObject({ operation_id: first.operation_id, disposition: 'replayed' });
    await expect.poll(() => Promise.all(agents(old).map(status)), { timeout: 3_000 }).toEqual([401, 401]);
  });

  it('a rotation never lengthens the life of the old key, and a key without an end passes that on', async () => {
    const short = await createAgent('--expires', '1h');
    const end = (await listed(short))?.expires_at;
    const { out: forever } = await run('rotate', prefixOf(await createAgent()));
    await run('rotate', prefixOf(short), '--overlap', '30d', '--expires', '2d');
    expect((await listed(short))?.expires_at).toBe(end);
    expect((await listed(forever))?.expires_at).toBeNull();
  });
});

describe('what was mistyped', () => {
  it('is told, and changes nothing', async () => {
    for (const args of [[], ['delete'], ['rotate'], ['revoke'], ['revoke', 'cg_short'], ['rotate', 'cg_aaaaaaaa', '--overlap', 'soon'], ['list', '--format', 'xml'], ['toString']]) {
      await expect(run(...args), args.join(' ')).rejects.toThrow(UsageError);
    }
    await expect(run('rotate', 'cg_aaaaaaaa')).rejects.toThrow('no key that is in force has the prefix `cg_aaaaaaaa`');
    await expect(run('revoke', 'cg_aaaaaaaa')).rejects.toThrow('there is no key `cg_aaaaaaaa`');
  });

  it('a whole key names itself, and is not repeated', async () => {
    const key = await createAgent();
    const { out } = await run('revoke', key);
    expect(out).toBe(`revoked: ${prefixOf(key)}`);
  });
});
