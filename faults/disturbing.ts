/** Carries out what is to happen to the processes, one thing at a time to each of them. */
import type { House } from './house.js';
import type { Disturbance, DisturbanceKind } from './plan.js';

export interface Disturbing {
  /** Begins whatever is due by this step. */
  reached(step: number): void;
  /** Resolves when all of it has happened and everything is up again. @throws what could not be brought up. */
  quiet(): Promise<void>;
  done(): Partial<Record<DisturbanceKind, number>>;
}

export function openDisturbing(house: House, disturbances: Disturbance[], replicas: number, seed: number): Disturbing {
  const waiting = [...disturbances];
  const queues = new Map<string, Promise<void>>();
  const done: Partial<Record<DisturbanceKind, number>> = {};
  const perform = (one: Disturbance): Promise<void> => acts[one.kind](house, one, seed).then(() => { done[one.kind] = (done[one.kind] ?? 0) + 1; });
  const begin = (one: Disturbance): void => {
    const target = one.kind.startsWith('replica') ? `replica ${one.replica % replicas}` : (one.kind.split(' ')[0] as string);
    const after = (queues.get(target) ?? Promise.resolve()).then(() => perform(one));
    after.catch(() => undefined); // told by `quiet`
    queues.set(target, after);
  };
  return {
    reached(step) {
      while (waiting[0] && waiting[0].at <= step) begin(waiting.shift() as Disturbance);
    },
    async quiet() { await Promise.all(queues.values()); },
    done: () => done,
  };
}

const acts: Record<DisturbanceKind, (house: House, disturbance: Disturbance, seed: number) => Promise<void>> = {
  'replica killed': ({ fleet }, { replica, ms }) => fleet.kill(replica, ms),
  'replica frozen': ({ fleet }, { replica, ms }) => fleet.freeze(replica, ms),
  'replica drained': ({ fleet }, { replica, ms }) => fleet.drain(replica, ms),
  'redis killed': ({ redis }, { ms }) => redis.kill(ms),
  'redis flushed': ({ redis }) => redis.flush(),
  'redis frozen': ({ redis }, { ms }) => redis.freeze(ms),
  'postgres restarted': ({ postgres }, { ms }) => postgres.restart(ms),
  'postgres killed': ({ postgres }, { ms }) => postgres.kill(ms),
  'postgres cut off': async ({ postgres }) => postgres.cut(),
  'postgres failed over': ({ postgres }, _, seed) => postgres.failOver(seed % 2 === 0 ? 'zombie' : 'crash'),
  'service killed': ({ shop }, { ms }) => shop.kill(ms),
};
