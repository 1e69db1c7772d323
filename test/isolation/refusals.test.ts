/**
 * Every refusal of both doors is held against those that its asker must not be able to tell from it: status, headers, body, and what it made
 * the gateway do. The paths, methods and filters come from openapi.yaml, so a new one that nobody thought of here fails (semantics.md section 9,
 * invariant 5). If it is lost, an agent finds out who else is at work, and on what, by asking for it.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { keyPrefix, type KeyRecord, mintKey } from '../../src/identity/api-keys.js';
import { readOpenapi } from '../../src/http/control/openapi.js';
import { projectFile } from '../../src/project.js';
import { anotherKey } from '../gate/guarded.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { buildEstates, type Estate, estateContracts } from './estate.js';
import { ask, type Comparable, comparable, noting, type Seen, still, tellsApart } from './witness.js';

vi.mock('node:crypto', async (original) => (await import('./witness.js')).counting(await original()));

type Parameter = { $ref?: string; name?: string; in?: string };
type Method = { tags: ('agent' | 'control')[]; security?: unknown[]; parameters?: Parameter[]; operationId: string };
type Document = { paths: Record<string, { parameters?: Parameter[] } & Partial<Record<'get' | 'post' | 'put' | 'delete' | 'patch', Method>>>; components: { parameters: Record<string, Parameter> } };
const document = readOpenapi(projectFile('openapi.yaml')) as unknown as Document;

interface Way { plane: 'agent' | 'control'; method: string; path: string; name: string; open: boolean; filters: string[] }
const ways: Way[] = Object.entries(document.paths).flatMap(([path, item]) => (['get', 'post', 'put', 'delete', 'patch'] as const).flatMap((method) => {
  const described = item[method];
  if (!described) return [];
  const parameters = [...(item.parameters ?? []), ...(described.parameters ?? [])].map((one) => (one.$ref ? document.components.parameters[one.$ref.split('/').at(-1) as string] as Parameter : one));
  const filters = parameters.flatMap(({ in: place, name }) => (place === 'query' && name ? [name] : []));
  return described.tags.map((plane): Way => ({ plane, method: method.toUpperCase(), path, name: `${plane} ${method.toUpperCase()} ${path}`, open: described.security?.length === 0, filters }));
}));
const secured = ways.filter(({ open }) => !open);

/** A body that is taken, where one is needed to come as far as the id. */
const bodies: Record<string, object> = {
  '/v1/sessions/{id}': { budgets: { turns: 5 } },
  '/v1/approvals/{id}/decision': { decision: 'approve', expected_digest: `sha256:${'0'.repeat(64)}` },
  '/v1/reviews/{id}/decision': { decision: 'committed', reason: 'seen', evidence: 'ticket', expected_digest: `sha256:${'0'.repeat(64)}` },
  '/v1/reviews/{id}/undo': { reason: 'given twice', expected_digest: `sha256:${'0'.repeat(64)}` },
};
const bodyOf = ({ path, method }: Way): string | undefined => (method === 'GET' ? undefined : JSON.stringify(bodies[path] ?? {}));

let house: House;
let database: pg.Client;
let open: Opened;
/** Of agent-2 and of another subject, both of the asker's tenant, and of another tenant. */
let colleague: Estate;
let otherSubject: Estate;
let otherTenant: Estate;
let applicationOfGlobex: string;
beforeAll(async () => {
  house = await openHouse({ RETAIL_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}` });
  process.env['RETAIL_WEBHOOK_SECRET'] = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
  database = new pg.Client({ connectionString: house.databaseUrl });
  await database.connect();
  const { keys } = house;
  applicationOfGlobex = await anotherKey(house, { tenant: 'globex', principal: 'application', roles: ['application'], subject: null, purposes: [] });
  [colleague, otherSubject, otherTenant] = await buildEstates(house, database, [
    { key: keys.otherAgent, order: 'O-420', application: null, tenant: 'acme', principal: 'agent-2', subject: 'C-17' },
    { key: keys.otherSubject, order: null, application: null, tenant: 'acme', principal: 'agent-1', subject: 'C-18' },
    { key: keys.otherTenant, order: 'O-900', application: applicationOfGlobex, tenant: 'globex', principal: 'agent-1', subject: 'C-90' },
  ]) as [Estate, Estate, Estate];
  open = await openGateway(house, { ...still, CALLGATE_CONTRACTS_FOLDER: estateContracts() }, noting);
}, 120_000);
afterAll(async () => {
  await open.gateway.close();
  await database.end();
  await house.close();
});

const urlOf = ({ plane, path }: Pick<Way, 'plane' | 'path'>, id = ''): string =>
  (plane === 'agent' ? open.gateway.agentUrl : open.gateway.controlUrl) + path.replace(/\{\w+\}/, encodeURIComponent(id));
const asked = (way: Way, id: string, key: string, headers: Record<string, string> = {}): Promise<Seen> => {
  const body = bodyOf(way);
  return ask({ method: way.method, url: urlOf(way, id), headers: { authorization: `Bearer ${key}`, ...headers }, ...(body === undefined ? {} : { body }) });
};

const base32 = '0123456789abcdefghjkmnpqrstvwxyz';
/** Of the same form and length, and of nobody. */
function neverMade(id: string): string {
  const [kind = '', rest = ''] = id.split('_');
  if (!['op', 'rcp', 'apr', 'rev'].includes(kind)) return unique('never').padEnd(id.length, 'x').slice(0, id.length);
  return `${kind}_${rest.slice(0, 10)}${Array.from({ length: rest.length - 10 }, () => base32[Math.floor(Math.random() * base32.length)]).join('')}`;
}

const collectionOf = (path: string): string => /^\/(?:v1\/)?([a-z]+)\/\{/.exec(path)?.[1] ?? '';
const idsIn = (estate: Estate, path: string): string[] | undefined => (estate as unknown as Record<string, string[]>)[collectionOf(path)];

/** Who may come as far as the id, on the control plane. */
const mayAsk = ({ plane, path, method }: Way): string => {
  const { keys } = house;
  if (plane === 'agent') return keys.agent;
  if (path.includes('sessions')) return keys.application;
  return method === 'GET' && !path.includes('reviews') ? keys.auditor : keys.reviewer;
};

/** A service has no tenant, and a problem code is everybody's; what must not be told of a service is below. */
const ofNobody = ['/v1/callbacks/{service}', '/docs/problems/{code}'];
const withId = ways.filter(({ path }) => path.includes('{'));

describe('an id of somebody else, and one that nobody has', () => {
  it('there are ids here for every path that takes one', () => {
    expect(withId.filter(({ path }) => !ofNobody.includes(path) && !idsIn(otherTenant, path)).map(({ name }) => name)).toEqual([]);
    for (const estate of [colleague, otherTenant]) expect(Object.values(estate).every((ids) => ids.length > 0)).toBe(true);
    expect(withId.length).toBeGreaterThan(10);
  });

  it.each(withId.filter(({ path }) => !ofNobody.includes(path)).map((way): [string, Way] => [way.name, way]))('%s', async (_, way) => {
    const before = await stored();
    const key = mayAsk(way);
    // An application's word is for its whole tenant; what agents have is their own.
    const estates = way.plane === 'agent' ? [otherTenant, colleague, otherSubject] : [otherTenant];
    const theirs = estates.flatMap((estate) => idsIn(estate, way.path) ?? []);
    for (const id of way.path.endsWith('/cancel') ? sample(theirs) : theirs) {
      // a session that is set is made: it is the tenant's own from then on
      const absent = neverMade(id);
      const [one, other] = [await asked(way, id, key), await asked(way, absent, key)].map((seen, n) => comparable(seen, [n === 0 ? id : absent])) as [Comparable, Comparable];
      expect(timeless(one), id).toEqual(timeless(other));
      if (!way.path.includes('sessions')) expect(one.status).toBe(404);
      expect(one.sent).toEqual([]);
    }
    expect(await stored()).toEqual(before);
  }, 120_000);

  it.each(secured.filter(({ plane, path, method }) => plane === 'control' && path.includes('{') && method !== 'GET').map((way): [string, Way] => [way.name, way]))(
    '%s by somebody without the role says nothing of the id, of whichever tenant', async (_, way) => {
      const { keys } = house;
      const may = way.path.includes('sessions') ? [keys.application] : way.path.includes('approvals') ? [keys.application, keys.reviewer] : [keys.reviewer];
      const before = await stored();
      for (const key of [keys.auditor, keys.admin, keys.application, keys.reviewer].filter((one) => !may.includes(one))) {
        const ids = [idsIn(otherTenant, way.path)?.[0], idsIn(colleague, way.path)?.[0], neverMade('never')] as string[];
        const seen = [];
        for (const id of ids) seen.push(comparable(await asked(way, id, key), [id]));
        expect(seen[0]?.status).toBe(403);
        for (const one of seen) expect(one).toEqual(seen[0]);
      }
      expect(await stored()).toEqual(before);
    });
});

describe('a filter by what somebody else has, and by what nobody has', () => {
  /** Of a list itself, or of everybody. */
  const ofTheList = ['limit', 'cursor', 'from', 'to', 'state', 'disposition', 'outcome', 'by', 'reason', 'after', 'format', 'dialect', 'offset'];
  const values: Record<string, () => string> = {
    session_id: () => otherTenant.sessions[0] as string, intent_id: () => otherTenant.intents[0] as string, principal: () => 'only-in-globex', tool: () => 'void_credit', subject: () => 'C-90',
  };
  const filtered = ways.flatMap((way) => way.filters.filter((name) => !ofTheList.includes(name)).map((name): [string, Way, string] => [`${way.name}?${name}`, way, name]));

  it('there is a value here for every filter', () => expect(filtered.filter(([, , name]) => !values[name]).map(([name]) => name)).toEqual([]));

  it.each(filtered)('%s', async (_, way, name) => {
    const key = way.plane === 'agent' ? house.keys.agent : way.path.includes('reviews') ? house.keys.reviewer : house.keys.auditor;
    const value = (values[name] as () => string)();
    const url = urlOf(way, 's-1');
    const narrow = name === 'tool' ? `&session_id=${otherTenant.sessions[0]}` : ''; // that one everybody's calls have
    const compared = async (given: string): Promise<Comparable> => comparable(await ask({ method: way.method, url: `${url}?${name}=${encodeURIComponent(given)}${way.path === '/v1/reviews' ? '' : narrow}`, headers: { authorization: `Bearer ${key}` } }), [given]);
    if (way.path === '/v1/reviews' && name === 'tool') return; // a tool is not a tenant's
    expect(await compared(value)).toEqual(await compared(neverMade(value)));
  });
});

describe('a credential that does not work', () => {
  it('does not, in one way for all of them and on every path, whatever is asked', async () => {
    const { keys } = house;
    const past = new Date(Date.now() - 1000);
    const made = (change: Partial<KeyRecord>): Promise<string> => anotherKey(house, change);
    const revoked = async (): Promise<string> => {
      const key = await made({});
      await database.query('update api_keys set revoked_at = now() where prefix = $1', [keyPrefix(key)]);
      return key;
    };
    const secret = keys.agent.slice(0, -6);
    const looked = [mintKey().key, `${secret}${keys.agent.endsWith('AAAAAA') ? 'BBBBBB' : 'AAAAAA'}`, await revoked(), await made({ expiresAt: past }), await made({ roles: ['agent', 'admin'] }), await made({ roles: [] }), `${keys.agent}x`];
    const unread = ['cg_', 'nonsense', 'a.b.c', 'eyJhbGciOiJub25lIn0.e30.'];
    expect(secured.length).toBeGreaterThan(20);
    for (const way of secured) {
      const seen: [string, Comparable][] = [];
      for (const key of [...looked, ...unread]) {
        const one = await asked(way, neverMade('never'), key);
        expect(one.hashed, `${way.name} ${key}`).toBe(unread.includes(key) ? 0 : key.length);
        seen.push([key, comparable(one, [key])]);
      }
      const [first] = seen;
      expect(first?.[1]).toMatchObject({ status: 401, sent: [], body: { code: 'UNAUTHENTICATED' } });
      for (const [key, { statements, ...told }] of seen) {
        expect(told, `${way.name} ${key}`).toEqual({ ...first?.[1], statements: undefined });
        expect(statements, `${way.name} ${key}`).toEqual(unread.includes(key) ? [] : first?.[1].statements);
      }
    }
  }, 120_000);

  it('says nothing of what was asked for, nor does one of the other plane', async () => {
    const { keys } = house;
    for (const way of secured.filter(({ path }) => path.includes('{'))) {
      for (const key of [mintKey().key, ...(way.plane === 'agent' ? [keys.auditor, keys.reviewer, keys.application, keys.admin] : [keys.agent])]) {
        const [there, never] = [idsIn(colleague, way.path)?.[0] ?? 'retail', neverMade('never')];
        expect(comparable(await asked(way, there, key), [there]), way.name).toEqual(comparable(await asked(way, never, key), [never]));
      }
    }
  }, 60_000);
});

describe('an order out of sight, and one that does not exist', () => {
  const calls: [string, (order: string) => object][] = [
    ['read', (order_id) => ({ tool: 'get_order', arguments: { order_id } })], ['quoted', (order_id) => ({ tool: 'quote_credit', arguments: { order_id, amount: 1 } })],
    ['written', (order_id) => ({ tool: 'issue_credit', arguments: { order_id, amount: 1, currency: 'GBP' } })], ['written beyond its balance', (order_id) => ({ tool: 'issue_credit', arguments: { order_id, amount: 50000, currency: 'GBP' } })],
    ['written with an approval', (order_id) => ({ tool: 'issue_credit', arguments: { order_id, amount: 2900, currency: 'GBP' } })], ['cancelled', (order_id) => ({ tool: 'cancel_order', arguments: { order_id } })],
    ['written on a version', (order_id) => ({ tool: 'issue_credit', arguments: { order_id, amount: 1, currency: 'GBP' }, expected_version: '"1"' })],
  ];
  const named = (call: object): { name: string; arguments: string } => ({ name: (call as { tool: string }).tool, arguments: JSON.stringify((call as { arguments: object }).arguments) });
  const doors: Record<string, (session_id: string, call: { tool: string; arguments: object }) => object> = {
    '/v1/calls': (session_id, call) => ({ session_id, call_id: 'c', ...call }),
    '/v1/batches': (session_id, call) => ({ session_id, calls: [{ call_id: 'c', ...call }, { call_id: 'd', ...call, tool: 'get_order', arguments: { order_id: 'O-417' } }] }),
    '/v1/dialects/openai-chat': (session_id, call) => ({ session_id, message: { tool_calls: [{ id: 'c', type: 'function', function: named(call) }] }, finish_reason: 'tool_calls' }),
    '/v1/dialects/openai-responses': (session_id, call) => ({ session_id, output: [{ type: 'function_call', call_id: 'c', ...named(call) }], status: 'completed' }),
    '/v1/dialects/anthropic': (session_id, call) => ({ session_id, message: { content: [{ type: 'tool_use', id: 'c', name: call.tool, input: call.arguments }] }, stop_reason: 'tool_use' }),
  };

  // The first receipt of a tool brings its dictionary, and the first operation of one its contract, whatever is asked afterwards.
  beforeAll(async () => {
    for (const call of [...calls.map(([, each]) => each('O-998')), { tool: 'get_order', arguments: { order_id: 'O-417' } }]) await ask({ method: 'POST', url: `${open.gateway.agentUrl}/v1/calls`, headers: { authorization: `Bearer ${house.keys.agent}` }, body: JSON.stringify({ session_id: unique('s'), call_id: 'c', ...call }) });
  });

  it('every door that takes calls is here', () => expect(ways.filter(({ method, path, plane }) => plane === 'agent' && method === 'POST' && !path.includes('{')).map(({ path }) => path).sort()).toEqual(Object.keys(doors).sort()));

  it.each(Object.keys(doors).flatMap((door) => calls.map(([what, call]): [string, string, (order: string) => object] => [door, what, call])))('%s: %s', async (door, _, call) => {
    const seen: Comparable[] = [];
    for (const order of ['O-900', 'O-999']) {
      const session = unique('s');
      const body = JSON.stringify((doors[door] as (session: string, call: never) => object)(session, call(order) as never));
      seen.push(comparable(await ask({ method: 'POST', url: open.gateway.agentUrl + door, headers: { authorization: `Bearer ${house.keys.agent}` }, body }), [session, order]));
    }
    expect(JSON.stringify(seen[0]?.body)).toContain('NOT_FOUND');
    expect(seen[0]).toEqual(seen[1]);
  });
});

describe('what else could be told apart', () => {
  it('a service that tells by itself and one that there is not, by a signature that does not hold', async () => {
    const headers = { 'webhook-id': 'evt-1', 'webhook-timestamp': String(Math.floor(Date.now() / 1000)), 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` };
    const tell = (service: string): Promise<Seen> => ask({ method: 'POST', url: urlOf({ plane: 'control', path: `/v1/callbacks/${service}` }), headers, body: '{"data":{}}' });
    const [known, unknown] = [await tell('retail'), await tell('absent')];
    expect(comparable(known, ['retail'])).toMatchObject({ status: 401, statements: [] });
    expect(comparable(known, ['retail'])).toEqual(comparable(unknown, ['absent']));
    expect(known.hashed).toBeGreaterThan(0);
    expect(unknown.hashed).toBe(known.hashed);
  });

  it('a session under a parent of another tenant, and under one that is not there', async () => {
    const theirs = unique('theirs');
    await open.control(applicationOfGlobex).put(`/v1/sessions/${theirs}`, {});
    const seen = [];
    for (const parent of [theirs, unique('never')]) {
      const id = unique('s');
      seen.push(comparable(await ask({ method: 'PUT', url: urlOf({ plane: 'control', path: `/v1/sessions/${id}` }), headers: { authorization: `Bearer ${house.keys.application}` }, body: JSON.stringify({ parent_session_id: parent }) }), [id, parent]));
    }
    expect(seen[0]).toMatchObject({ status: 400 });
    expect(seen[0]).toEqual(seen[1]);
  });
});

/**
 * Times of one class lie among those of the other. Asked in turn, in an order that is drawn anew, so that a busy machine is equally busy with
 * both; by ranks; and the bound is eight standard deviations of two equal classes away, which no number of runs of this test will see.
 */
describe('the time that it takes', () => {
  const samples = 120;
  const bound = 8 * Math.sqrt((2 * samples + 1) / (12 * samples * samples));

  it('the measure sees a shift, and none where there is none', () => {
    const times = (shift: number): number[] => Array.from({ length: samples }, (_, n) => 5 + ((n * 7919) % samples) / samples + shift);
    expect(tellsApart(times(0.9), times(0))).toBeGreaterThan(0.5 + bound);
    expect(tellsApart(times(0), times(0))).toBeCloseTo(0.5);
  });

  const pairs: [string, () => [() => Promise<Seen>, () => Promise<Seen>]][] = [
    ['an operation of another agent, and none', () => {
      const way = ways.find(({ name }) => name === 'agent GET /v1/operations/{id}') as Way;
      return [() => asked(way, colleague.operations[0] as string, house.keys.agent), () => asked(way, neverMade('op_0000000000aaaaaaaaaaaaaaaaaaaaaa'), house.keys.agent)];
    }],
    ['a wrong key, and an unknown one', () => {
      const way = ways.find(({ name }) => name === 'agent GET /v1/tools') as Way;
      return [() => asked(way, '', `${house.keys.agent.slice(0, -6)}${house.keys.agent.endsWith('AAAAAA') ? 'BBBBBB' : 'AAAAAA'}`), () => asked(way, '', mintKey().key)];
    }],
    ['an order out of sight, and none', () => {
      const read = (order_id: string) => () => ask({ method: 'POST', url: `${open.gateway.agentUrl}/v1/calls`, headers: { authorization: `Bearer ${house.keys.agent}` }, body: JSON.stringify({ session_id: unique('s'), tool: 'get_order', arguments: { order_id } }) });
      return [read('O-900'), read('O-999')];
    }],
  ];
  it.each(pairs)('%s', async (_, pair) => {
    const [one, other] = pair();
    const times: [number[], number[]] = [[], []];
    for (let n = 0; n < samples; n++) {
      for (const which of Math.random() < 0.5 ? [0, 1] as const : [1, 0] as const) times[which].push((await (which === 0 ? one : other)()).ms);
    }
    expect(Math.abs(tellsApart(...times) - 0.5)).toBeLessThan(bound);
  }, 60_000);
});

/** What nobody's asking may change. */
async function stored(): Promise<unknown> {
  const { rows } = await database.query(`select tenant, operation_id, state, fence from operations order by 1, 2`);
  const { rows: requests } = await database.query('select count(*)::integer as n from cancel_requests');
  return [rows, requests];
}

/** One in every state is enough where each look takes a second. */
function sample(ids: readonly string[]): string[] {
  return ids.filter((_, n) => n % 3 === 0);
}

/** A session that was made has a time at which it was. */
function timeless({ body, ...rest }: Comparable): Comparable {
  return { ...rest, body: JSON.parse(JSON.stringify(body).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')) as unknown };
}
