import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Ended, type Ending, type Mode, type NotLegal, type Ordered, runInOrder } from '../../src/gate/batch-order.js';

/**
 * semantics.md section 7, the order of a turn. An order that is worked out wrongly charges a payment that was to be cancelled, refuses
 * what was legal, or reads a state that is about to change; and a call that is lost on the way leaves a conversation without its result.
 */
type Table = Record<string, Record<string, string>>;
interface Given { write: boolean; action: string; entities: string[]; fate: Exclude<Ending, 'illegal'> }
interface World { table: Table; state: Record<string, string> }

const ordered = (calls: readonly Given[], table: Table): Ordered[] => calls.map(({ write, action, entities }, position) => ({
  position, write, keys: entities, lines: entities, after: [], judged: write && entities.length > 0,
  tables: write && entities.length > 0 ? [{ entity: entities[0] as string, legalIn: (state) => table[state]?.[action] !== undefined }] : [],
}));

/** What the pipeline would do, on the actual state, with every call's fate decided beforehand. */
async function simulate(calls: readonly Given[], { table, state }: World): Promise<{ ran: string[]; most: number; state: Record<string, string> }> {
  const now = { ...state };
  const ran: string[] = [];
  const open = new Map<string, number>();
  let most = 0;
  await runInOrder(ordered(calls, table), async ({ position }, { insist, stopped: stoppedOn }: Mode): Promise<Ended | NotLegal> => {
    const { write, action, entities, fate } = calls[position] as Given;
    const [entity] = entities;
    for (const key of entities) most = Math.max(most, open.set(key, (open.get(key) ?? 0) + 1).get(key) ?? 0);
    await new Promise((resolve) => setImmediate(resolve));
    for (const key of entities) open.set(key, (open.get(key) ?? 1) - 1);
    const told = entity ? { [entity]: now[entity] as string } : {};
    const stopped = stoppedOn(entities);
    if (stopped) {
      ran.push(`${position} stopped ${stopped}`);
      return { ending: stopped, states: {} };
    }
    const next = entity ? table[now[entity] as string]?.[action] : undefined;
    if (write && entity && next === undefined) {
      if (!insist) return { notLegalIn: told };
      ran.push(`${position} illegal`);
      return { ending: 'illegal', states: told };
    }
    if (write && entity && fate === 'committed') now[entity] = next as string;
    ran.push(`${position} ${write ? fate : 'read'}`);
    return { ending: write ? fate : 'committed', states: entity && fate === 'committed' ? { [entity]: now[entity] as string } : {} };
  });
  return { ran, most, state: now };
}

/** The rule as it is written down, for calls that all meet: kept where legal throughout, else the first legal one, again and again. */
function rule(calls: readonly Given[], { table, state }: World): string[] {
  const now = { ...state };
  const stopped = new Map<string, string>();
  const out: string[] = [];
  let left = calls.map((_, position) => position);
  const at = (position: number): Given => calls[position] as Given;
  const next = (position: number): string | undefined => table[now[at(position).entities[0] as string] as string]?.[at(position).action];
  const take = (position: number, how: string): void => {
    left = left.filter((other) => other !== position);
    out.push(`${position} ${how}`);
  };
  const worst = (position: number): string | undefined => {
    const all = at(position).entities.map((key) => stopped.get(key));
    return ['unknown', 'failed', 'unavailable'].find((how) => all.includes(how));
  };
  while (left.length > 0) {
    const ready = left.find((position) => (at(position).write
      ? worst(position) !== undefined || next(position) !== undefined
      : !left.some((other) => other < position && at(other).write)));
    if (ready === undefined) {
      take(left.find((position) => at(position).write) as number, 'illegal');
      continue;
    }
    const { write, entities, fate } = at(ready);
    if (!write) {
      take(ready, 'read');
      continue;
    }
    const how = worst(ready);
    if (how) {
      for (const key of entities) stopped.set(key, how);
      take(ready, `stopped ${how}`);
      continue;
    }
    const to = next(ready) as string;
    if (fate === 'committed') now[entities[0] as string] = to;
    else for (const key of entities) stopped.set(key, fate);
    take(ready, fate);
  }
  return out;
}

const states = ['A', 'B', 'C', 'D'];
const actions = ['a', 'b', 'c', 'd'];
const table: fc.Arbitrary<Table> = fc.dictionary(fc.constantFrom(...states), fc.dictionary(fc.constantFrom(...actions), fc.constantFrom(...states)), { maxKeys: 4 });
const fate = fc.oneof({ weight: 6, arbitrary: fc.constant<'committed'>('committed') }, { weight: 1, arbitrary: fc.constantFrom<Given['fate']>('failed', 'unknown', 'unavailable') });
const given = (entities: fc.Arbitrary<string[]>): fc.Arbitrary<Given> =>
  fc.record({ write: fc.boolean(), action: fc.constantFrom(...actions), entities, fate });
const world = fc.record({ table, state: fc.record({ x: fc.constantFrom(...states), y: fc.constantFrom(...states), z: fc.constantFrom(...states) }) });

describe('calls on one entity', () => {
  it('run as the rule says, over all tables, states, orders and fates', async () => {
    await fc.assert(fc.asyncProperty(world, fc.array(given(fc.constant(['x'])), { minLength: 1, maxLength: 7 }), async (w, calls) => {
      const first = calls.some(({ write }) => write) ? calls : [{ ...(calls[0] as Given), write: true }, ...calls];
      const { ran, most } = await simulate(first, w);
      expect(ran).toEqual(rule(first, w));
      expect(most).toBe(1);
    }), { numRuns: 600 });
  });

  it('keep the listed order exactly where it is legal throughout', async () => {
    await fc.assert(fc.asyncProperty(world, fc.array(fc.constantFrom(...actions), { maxLength: 6 }), async (w, list) => {
      const last = list.reduce<string | undefined>((state, action) => (state === undefined ? undefined : w.table[state]?.[action]), w.state['x']);
      const legal = last !== undefined;
      const { ran } = await simulate(list.map((action) => ({ write: true, action, entities: ['x'], fate: 'committed' })), w);
      expect(ran.join() === list.map((_, position) => `${position} committed`).join()).toBe(legal);
    }), { numRuns: 600 });
  });
});

describe('calls that meet on several entities', () => {
  it('run one after another by the same rule, however they are linked', async () => {
    const linked = fc.constantFrom<string[]>(['x', 'y'], ['y', 'x'], ['y', 'z'], ['z', 'y'], ['x', 'y', 'z']);
    await fc.assert(fc.asyncProperty(world, fc.array(given(fc.oneof(linked, fc.constantFrom<string[]>(['x'], ['y'], ['z']))), { maxLength: 6 }), async (w, calls) => {
      const all = [{ write: true, action: 'a', entities: ['x', 'y', 'z'], fate: 'committed' as const }, ...calls];
      const { ran, most } = await simulate(all, w);
      expect(ran).toEqual(rule(all, w));
      expect(most).toBe(1);
    }), { numRuns: 400 });
  });
});

describe('any turn', () => {
  const anything = fc.array(given(fc.subarray(['x', 'y', 'z'])), { maxLength: 10 });

  it('every call runs exactly once, none beside a write on the same entity, and no read before a write that is listed before it', async () => {
    await fc.assert(fc.asyncProperty(world, anything, async (w, calls) => {
      const { ran } = await simulate(calls, w);
      expect(ran.map((line) => Number(line.split(' ')[0])).sort((a, b) => a - b)).toEqual(calls.map((_, position) => position));
      const when = new Map(ran.map((line, n) => [Number(line.split(' ')[0]), n]));
      for (const [position, { write, entities }] of calls.entries()) {
        if (write) continue;
        for (const [other, { write: writes, entities: theirs }] of calls.slice(0, position).entries()) {
          if (!writes || (entities.length > 0 && !entities.some((key) => theirs.includes(key)))) continue;
          expect(when.get(other), `${position} reads after ${other}`).toBeLessThan(when.get(position) as number);
        }
      }
    }), { numRuns: 400 });
  });

  it('an entity is decided on as if its calls were alone', async () => {
    const apart = fc.array(given(fc.constantFrom(['x'], ['y'])), { maxLength: 8 });
    await fc.assert(fc.asyncProperty(world, apart, async (w, calls) => {
      const { ran } = await simulate(calls, w);
      for (const key of ['x', 'y']) {
        const own = calls.map((call, position) => ({ call, position })).filter(({ call }) => call.entities[0] === key);
        if (!own.some(({ call }) => call.write)) continue;
        const alone = rule(own.map(({ call }) => call), w).map((line) => line.replace(/^\d+/, (n) => String(own[Number(n)]?.position)));
        expect(ran.filter((line) => own.some(({ position }) => position === Number(line.split(' ')[0])))).toEqual(alone);
      }
    }), { numRuns: 400 });
  });
});

describe('create, charge, cancel', () => {
  const sale: Table = { NEW: { create: 'CREATED', cancel: 'CANCELLED' }, CREATED: { charge: 'CHARGED', cancel: 'CANCELLED' } };
  const run = async (...list: string[]): Promise<string> => {
    const { ran } = await simulate(list.map((action) => ({ write: action !== 'read', action, entities: ['x'], fate: 'committed' })), { table: sale, state: { x: 'NEW' } });
    return ran.map((line) => `${list[Number(line.split(' ')[0])]}:${line.split(' ').slice(1).join(' ')}`.replace(':committed', '').replace(':read', '')).join(' ');
  };

  it.each([
    ['create charge', 'create charge'],
    ['charge create', 'create charge'],
    ['create cancel charge', 'create cancel charge:illegal'],
    ['create charge cancel', 'create charge cancel:illegal'],
    ['charge cancel create', 'cancel charge:illegal create:illegal'],
    ['charge create cancel', 'create charge cancel:illegal'],
    ['cancel create charge', 'cancel create:illegal charge:illegal'],
    ['cancel charge create', 'cancel charge:illegal create:illegal'],
    ['read charge create read', 'read create charge read'],
    ['charge read create', 'create charge read'],
  ])('%s runs as %s', async (listed, expected) => {
    expect(await run(...listed.split(' '))).toBe(expected);
  });
});

it('a later occurrence of a write comes after the earlier ones, wherever it is listed', async () => {
  const calls = [2, 1, 3].map((_, position, all): Ordered => ({
    position, write: true, keys: ['x'], lines: ['x'], judged: false, tables: [], after: all.flatMap((k, other) => (k < (all[position] as number) ? [other] : [])),
  }));
  const ran: number[] = [];
  await runInOrder(calls, async ({ position }) => {
    ran.push(position);
    return { ending: 'committed', states: {} };
  });
  expect(ran).toEqual([1, 0, 2]);
});

it('calls that do not meet are under way together', async () => {
  let open = 0;
  let most = 0;
  const meets = new Promise<void>((resolve) => { setTimeout(resolve, 5_000); });
  let all: () => void = () => undefined;
  const everybody = new Promise<void>((resolve) => { all = resolve; });
  await runInOrder(['x', 'y', 'z'].map((key, position) => ({ position, write: true, keys: [key], lines: [key], judged: false, tables: [], after: [] })), async () => {
    most = Math.max(most, ++open);
    if (open === 3) all();
    await Promise.race([everybody, meets]);
    return { ending: 'committed', states: {} };
  });
  expect(most).toBe(3);
});
