import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectFile } from '../../src/project.js';
import { serveCatalogue } from '../../src/catalogue.js';
import { standardDefaults } from '../../src/contract/defaults.js';
import { type House, openGateway, openHouse, type Opened, spawnGateway, unique } from '../support/gateway.js';

interface Status { digest: string; tools: { name: string; version: string }[]; refused: { problem: string } | null }

/**
 * Contracts change while calls run. If half a set were served, a call would be checked by one rule and executed by another; if an invalid
 * set replaced a valid one, a typo would stop every agent.
 */
describe('a changed contracts folder', () => {
  let house: House;
  let open: Opened;
  const folder = mkdtempSync(join(tmpdir(), 'callgate-reload-'));
  const file = join(folder, 'retail.yaml');
  beforeAll(async () => {
    cpSync(projectFile('examples', 'retail', 'contracts'), folder, { recursive: true });
    house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: folder, CALLGATE_CONTRACTS_RELOAD: '50ms', CALLGATE_CONTRACTS_VIEW_LIMITS: 'openai-chat=8 anthropic.tokens=90000' });
    open = await openGateway(house);
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
    rmSync(folder, { recursive: true });
  });
  const status = async (): Promise<Status> => (await open.control().get('/v1/contracts')) as unknown as Status;
  const until = async (enough: (now: Status) => boolean): Promise<Status> => {
    for (let n = 0; n < 100; n++) {
      const now = await status();
      if (enough(now)) return now;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error('it did not come to pass in 5 s');
  };
  const metric = async (outcome: string): Promise<number> => {
    const text = await (await fetch(`${open.gateway.controlUrl}/metrics`)).text();
    return Number(new RegExp(`callgate_contract_reloads_total\\{outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
  };

  it('is refused with its place when it is invalid, and the set before goes on serving; mended, it is swapped in whole', async () => {
    const before = await status();
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('args.amount <= order.refundable', 'args.amount <= order.refundible'));
    const refused = await until((now) => now.refused !== null);
    expect(refused.digest).toBe(before.digest);
    expect(refused.refused?.problem).toMatch(/retail\.yaml:\d+:\d+: error CG\d+/);
    expect(await metric('refused')).toBe(1);
    expect(await open.agent.credit({ session_id: unique('s'), arguments: { amount: 100 } })).toMatchObject({ disposition: 'executed' });

    writeFileSync(file, text.replace('version: 3.1.0', 'version: 3.2.0').replace('args.amount <= order.refundable', 'args.amount < order.refundable'));
    const swapped = await until((now) => now.digest !== before.digest);
    expect(swapped.refused).toBeNull();
    expect(await metric('swapped')).toBe(1);
    const whole = await open.agent.credit({ session_id: unique('s'), arguments: { amount: 4900 } });
    expect(whole).toMatchObject({ disposition: 'precondition_failed', contract: { version: '3.2.0' } });
  });

  it('is swapped in when a policy alone has changed: the next call is decided by it, and says by which set', async () => {
    const policies = join(folder, 'policies', 'retail.cedar');
    const [before, text] = [await status(), readFileSync(policies, 'utf8')];
    const policyOf = async (answer: { receipts: { decision: string | null } }) =>
      (await open.control().get(`/v1/receipts/${answer.receipts.decision}`) as unknown as { policy: { version: string; denied: { by: string[] } | null } }).policy;
    const admitted = await open.agent.credit({ session_id: unique('s'), arguments: { amount: 12 } });
    expect(admitted).toMatchObject({ disposition: 'executed' });
    writeFileSync(policies, `${text}\n@id("not-now") forbid (principal, action == Action::"issue_credit", resource is order);\n`);
    const swapped = await until((now) => now.digest !== before.digest);
    expect(swapped).toMatchObject({ refused: null, tools: before.tools });
    const denied = await open.agent.credit({ session_id: unique('s'), arguments: { amount: 13 } });
    expect(denied).toMatchObject({ http: 403, disposition: 'denied' });
    const [old, fresh] = [await policyOf(admitted), await policyOf(denied)];
    expect(fresh.denied?.by).toEqual(['not-now']);
    expect(fresh.version).not.toBe(old.version);
    writeFileSync(policies, text);
    expect(await until((now) => now.digest !== swapped.digest)).toMatchObject({ digest: before.digest });
    expect(await open.agent.credit({ session_id: unique('s'), arguments: { amount: 14 } })).toMatchObject({ disposition: 'executed' });
  });

  it('is refused for a policy that could not decide by these contracts, and the policies before go on deciding', async () => {
    const policies = join(folder, 'policies', 'retail.cedar');
    const [before, text] = [await status(), readFileSync(policies, 'utf8')];
    writeFileSync(policies, `${text}\nforbid (principal, action, resource is order) when { resource.refundabel > 1 };\n`);
    const refused = await until((now) => now.refused !== null);
    expect(refused.digest).toBe(before.digest);
    expect(refused.refused?.problem).toMatch(/policies\/retail\.cedar:\d+:\d+: error CG504: .*did you mean `refundable`/);
    expect(await open.agent.credit({ session_id: unique('s'), arguments: { amount: 11 } })).toMatchObject({ disposition: 'executed' });
    writeFileSync(policies, text);
    await until((now) => now.refused === null);
  });

  it('case-60: is refused when the view of a dialect that agents use would be too large, and the smaller set goes on being served', async () => {
    const [before, refusals] = [await status(), await metric('refused')];
    const more = join(folder, 'more.yaml');
    const tool = (name: string): string => `  ${name}:\n    { version: 1.0.0, effect: none, purpose: More., args: { type: object }, result: { type: object }, http: { method: GET, path: /more } }\n`;
    writeFileSync(more, `callgate: 1\nservice: more\nupstream: { base_url: http://127.0.0.1:9 }\ntools:\n${tool('more_one')}${tool('more_two')}`);
    const refused = await until((now) => now.refused !== null);
    expect(refused).toMatchObject({ digest: before.digest, tools: before.tools });
    expect(refused.refused?.problem).toMatch(/`contracts\.view_limits`[\s\S]*error CG620: catalogue_too_large: the view for `openai-chat` has 9 tools, and 8 are the most/);
    expect(await metric('refused')).toBe(refusals + 1);
    expect(await open.agent.call({ session_id: unique('s'), tool: 'more_one', arguments: {} })).toMatchObject({ http: 404 });
    rmSync(more);
    expect(await until((now) => now.refused === null)).toMatchObject({ digest: before.digest });
  });

  it('leaves an operation in flight under the digest that it began with', async () => {
    await house.shop.reset();
    await house.shop.fault({ tool: 'issue_credit', kind: 'delay_commit', ms: 800 });
    const running = open.agent.credit({ session_id: unique('s'), arguments: { amount: 300 } });
    const { digest } = await status();
    await expect.poll(async () => (await house.shop.books()).requests['POST /orders/{id}/credits'] ?? 0, { timeout: 5_000 }).toBe(1);
    writeFileSync(file, readFileSync(file, 'utf8').replace('version: 3.2.0', 'version: 3.3.0'));
    await until((now) => now.digest !== digest);
    expect(await running).toMatchObject({ disposition: 'executed', verified: true, contract: { version: '3.2.0' } });
    expect(await open.agent.credit({ session_id: unique('s'), arguments: { amount: 301 } })).toMatchObject({ contract: { version: '3.3.0' } });
  });
});

/** Who starts on a set that is refused later serves what nobody would have published; who serves nothing looks like one that works. */
describe('a gateway whose contracts are refused', () => {
  it.each<[string, Record<string, string>, RegExp]>([
    ['case-60: because a view is larger than its limit', { CALLGATE_CONTRACTS_VIEW_LIMITS: 'openai-chat=6' }, /more than `contracts\.view_limits` admits:[\s\S]*error CG620: catalogue_too_large: the view for `openai-chat` has 7 tools, and 6 are the most/],
    ['because there are none', { CALLGATE_CONTRACTS_FOLDER: mkdtempSync(join(tmpdir(), 'callgate-nothing-')) }, /do not compile:[\s\S]*error CG011/],
  ])('%s, does not start, and says why', async (_, env, says) => {
    const house = await openHouse(env);
    try {
      await expect(spawnGateway(house)).rejects.toThrow(says);
    } finally {
      await house.close();
    }
  });
});

/** A compiled set of hundreds of tools is tens of megabytes, and a folder may change every hour of a process's life. */
describe('sets that were served before', () => {
  it('are held while something may ask for them, not for ever: an older one comes back from the ledger, the same', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-sets-'));
    const write = (n: number): void => writeFileSync(join(folder, 'one.yaml'), `callgate: 1\nservice: one\nupstream: { base_url: http://127.0.0.1:9 }\ntools:\n  look:\n    { version: 1.0.${n}, effect: none, purpose: Look., args: { type: object }, result: { type: object }, http: { method: GET, path: /${'x'.repeat(n + 1)} } }\n`);
    const saved = new Map<string, string>();
    const asked: string[] = [];
    write(0);
    const contracts = await serveCatalogue({
      folder, env: {}, defaults: standardDefaults, reloadMs: 10, reloaded: () => undefined, unkept: () => undefined,
      store: {
        saveCatalogue: async (digest, source) => void saved.set(digest, source),
        catalogueSource: async (digest) => {
          asked.push(digest);
          return saved.get(digest) ?? null;
        },
      },
    });
    try {
      for (let n = 1; n <= 10; n++) {
        write(n);
        await expect.poll(() => saved.size, { timeout: 5_000 }).toBe(n + 1);
        await expect.poll(() => contracts.served().catalogue.digest).toBe([...saved.keys()].at(-1));
      }
      for (const [n, digest] of [...saved.keys()].entries()) expect((await contracts.earlier(digest))?.tools.get('look')?.version).toBe(`1.0.${n}`);
      expect(asked.length).toBeGreaterThanOrEqual(6);
      expect(asked).not.toContain(contracts.served().catalogue.digest);
    } finally {
      contracts.stop();
      rmSync(folder, { recursive: true });
    }
  });
});
