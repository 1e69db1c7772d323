/** Point 5: the ways in which a turn may come, and what may happen to it on the way. */
import { isDeepStrictEqual } from 'node:util';
import type { Answer } from '../../../src/model.js';
import { type Deliver, post } from './conversation.js';
import type { House } from './house.js';

export const modes = ['plain', 'lost-answers', 'triple', 'kill9'] as const;
export type Mode = (typeof modes)[number];

/** What each call of a turn was told, whichever delivery was the first. */
function meaning({ disposition, result, code }: Answer): unknown {
  return { disposition: disposition === 'replayed' ? 'executed' : disposition, result, code };
}

/** Three times at once. @throws Error when two of them were told different things. */
const triple: Deliver = async (house, body) => {
  const [first = [], ...others] = await Promise.all([post(house, body), post(house, body), post(house, body)]);
  const settled = (answers: Answer[]): boolean => answers.every(({ next_action }) => next_action !== 'wait' && next_action !== 'retry');
  for (const other of others) {
    if (settled(first) && settled(other) && !isDeepStrictEqual(first.map(meaning), other.map(meaning))) {
      throw new Error(`one turn was answered in two ways:\n${JSON.stringify(first)}\n${JSON.stringify(other)}`);
    }
  }
  return [first, ...others].find(settled) ?? first;
};

/** A kill lands within this time of the turn's arrival: before, while and after it is carried out. */
const withinMs = 60;

/**
 * @param share of the turns in which the gateway dies; a turn that was faster than its kill passes it on to the next one, and the first is
 * always meant. @param random a number from 0 to 1, from a seed.
 */
function killing(share: number, random: () => number): Deliver {
  let due = share > 0;
  return async (house, body) => {
    due ||= random() < share;
    if (!due) return post(house, body);
    const timer = setTimeout(() => {
      due = false;
      void house.gateway.kill();
    }, random() * withinMs);
    try {
      return await post(house, body);
    } finally {
      clearTimeout(timer);
    }
  };
}

export interface Chaos {
  killShare: number;
  seed: number;
}

export function delivery(mode: Mode, { killShare, seed }: Chaos): Deliver {
  if (mode === 'kill9') return killing(killShare, seeded(seed));
  return mode === 'triple' ? triple : post;
}

/** Before each conversation: the store as it was, with what the mode does to its answers. */
export function prepare(mode: Mode, { service }: House): void {
  service.reset();
  if (mode === 'lost-answers') service.loseFirstAnswers();
}

/** Mulberry32. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
