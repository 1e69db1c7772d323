/**
 * What has to follow, by the specification (semantics.md sections 3 to 5): for each class of observation, each set-up of the tool, each moment of the
 * attempt and what is true behind it. Written by hand; the test drives every cell and holds the gateway to it.
 */
import type { Outcome } from '../../../src/model.js';
import type { Class, Observation, World } from './observations.js';
import { hasReadBack, type Setup } from './service.js';

export const moments = {
  first: 'first attempt',
  last: 'the only attempt left',
  after_absence: 'after an attempt that a read-back proved absent',
  after_unknown: 'after an attempt whose outcome is still unknown',
} as const;
export type Moment = keyof typeof moments;

/** `before`: whether the attempt before, which is unknown, had taken effect. */
export interface Cell { setup: Setup; moment: Moment; world: World; before: World }
export interface Ends {
  /** Of the attempt, as it is recorded. */
  verdict: Outcome;
  /** The answer in the end. */
  told: string;
  /** Requests that reached the service, and effects in its books. */
  sent: number;
  effects: number;
}

export const verified = '`executed`, verified';
export const believed = '`executed`, not verified';
const absent = (code = 'NOT_COMMITTED'): string => `\`rejected\` ${code}, retry`;
const person = (reason: string): string => `\`review\` ${reason}, escalate`;

const positive: ReadonlySet<Class> = new Set(['committed', 'claimed', 'accepted']);
const alone: Record<Class, Outcome> = {
  not_sent: 'not_committed', committed: 'committed', claimed: 'committed', accepted: 'accepted', rejected: 'rejected', version_conflict: 'rejected', not_found: 'rejected',
  not_committed: 'not_committed', rate_limited: 'not_committed', unknown: 'unknown',
};

/** A set-up that sends nothing while an attempt is unknown, by itself or by a person's decision, has no later attempt of that kind. */
export const momentsOf = (setup: Setup): Moment[] => [
  'first', 'last', ...(hasReadBack(setup) ? ['after_absence' as const] : []), ...(setup === 'both' || setup === 'key' ? ['after_unknown' as const] : []),
];

export function expected(observation: Observation, cell: Cell): Ends {
  return cell.moment === 'after_unknown' ? afterUnknown(observation, cell) : onItsOwn(observation, cell);
}

/** No attempt before it is in doubt. */
function onItsOwn({ proves, code }: Observation, { setup, moment, world }: Cell): Ends {
  const readBack = hasReadBack(setup);
  const done = readBack ? verified : believed;
  const before = moment === 'after_absence' ? 1 : 0;
  const more = moment !== 'last';
  const arrived = before + (proves === 'not_sent' ? 0 : 1);
  const here = world === 'happened' ? 1 : 0;
  const ends = (told: string, again = 0, effects = here): Ends => ({ verdict: alone[proves], told, sent: arrived + again, effects });
  /** What was accepted is polled, and at its deadline as unknown as any other. */
  const found = (effect: number): Ends => (effect === 1 ? ends(verified) : more ? ends(verified, 1, 1) : ends(absent()));
  const outOfSight = (): Ends => {
    if (setup === 'neither' || !(more || proves === 'accepted')) return ends(person('OUTCOME_UNPROVABLE'));
    return proves === 'accepted' ? ends(person('DEADLINE_PASSED')) : ends(believed, 1, 1);
  };
  switch (proves) {
    case 'not_sent': return more ? ends(done, 1, 1) : ends('`failed` UPSTREAM_UNREACHABLE, retry');
    case 'not_committed': return more ? ends(done, 1, 1) : ends(absent(code));
    case 'rate_limited': return ends('`rate_limited` RATE_LIMITED, retry');
    case 'rejected': return ends(code ? `\`rejected\` ${code}, ask` : '`rejected` UPSTREAM_REJECTED, abandon');
    case 'version_conflict': return ends(`\`version_conflict\` ${code ?? 'UPSTREAM_VERSION_CONFLICT'}, refresh`);
    case 'not_found': return ends('`denied` NOT_FOUND, ask');
    case 'committed':
    case 'claimed': return ends(here === 0 && readBack ? person('MISSING_AFTER_COMMIT') : done);
    case 'accepted':
    case 'unknown': return readBack ? found(here) : outOfSight();
  }
}

/**
 * Under an honoured key alone it was sent again by the machine, with a read-back as well only by a person; an effect of the attempt before is
 * found under the same key. Nothing but positive evidence settles it: a refusal may be one of what had happened before.
 */
function afterUnknown({ proves }: Observation, { setup, world, before }: Cell): Ends {
  const arrived = proves === 'not_sent' ? 1 : 2;
  const effects = before === 'happened' || world === 'happened' ? 1 : 0;
  const verdict = positive.has(proves) ? alone[proves] : 'unknown';
  const ends = (told: string, again = 0, found = effects): Ends => ({ verdict, told, sent: arrived + again, effects: found });
  if (setup === 'key') {
    if (proves === 'accepted') return ends(person('DEADLINE_PASSED'));
    return positive.has(proves) ? ends(believed) : ends(believed, 1, 1);
  }
  if (effects === 1) return ends(verified);
  return proves === 'committed' || proves === 'claimed' ? ends(person('MISSING_AFTER_COMMIT')) : ends(verified, 1, 1);
}

/** A read has no effect to lose: what is no answer is asked for again while attempts are left. */
export function expectedOfRead({ proves, read, code }: Observation, last: boolean): { told: string; sent: number } | null {
  if (read === null) return null;
  const as = read ?? proves;
  const arrived = proves === 'not_sent' ? 0 : 1;
  switch (as) {
    case 'committed': return { told: believed, sent: 1 };
    case 'rejected': return { told: code ? `\`rejected\` ${code}, ${proves === 'version_conflict' ? 'refresh' : 'ask'}` : '`rejected` UPSTREAM_REJECTED, abandon', sent: 1 };
    case 'not_found': return { told: '`denied` NOT_FOUND, ask', sent: 1 };
    case 'rate_limited': return { told: '`rate_limited` RATE_LIMITED, retry', sent: 1 };
    case 'paused': return last ? { told: '`rate_limited` RATE_LIMITED, retry', sent: 1 } : { told: believed, sent: 2 };
    case 'retried': return last ? { told: `\`failed\` ${code ?? 'READ_FAILED'}, retry`, sent: arrived } : { told: believed, sent: arrived + 1 };
    default: throw new Error(`no read comes to ${as}`);
  }
}

/** Where the effect is there: shown twice it is no effect that anybody meant; shown by nothing it is owed until the deadline. */
export type Shown = 'twice' | 'nothing';
export const expectedOfReadBack = (shown: Shown): Omit<Ends, 'verdict'> =>
  shown === 'twice' ? { told: person('MISMATCH'), sent: 1, effects: 2 } : { told: person('DEADLINE_PASSED'), sent: 1, effects: 1 };
