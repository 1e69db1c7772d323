/**
 * How fast and how many at once a principal, and all of a tenant together, may ask this replica. Asked once it is known who calls and before a
 * byte of the body is read; so one agent that runs wild is slowed by itself, and holds up nobody else.
 */
import { type Refusal, refuse } from '../errors.js';
import type { Principal } from '../model.js';

/** 0: no bound. */
export interface CallerLimits {
  principal: { perSecond: number; atOnce: number };
  tenant: { perSecond: number; atOnce: number };
}

/** Gives the place back; a second time does nothing. */
export type Leave = () => void;

interface Caller { tokens: number; since: number; running: number }

/** Beyond as many, those that ask nothing just now are forgotten. */
const rememberedAtMost = 10_000;
const busyMs = 1_000;

export function limitCallers(limits: CallerLimits, now: () => number = () => performance.now()): (principal: Pick<Principal, 'tenant' | 'id'>) => Leave | Refusal {
  const callers = new Map<string, Caller>();

  const callerOf = (key: string, { perSecond }: CallerLimits['tenant']): Caller => {
    const at = now();
    const known = callers.get(key) ?? { tokens: perSecond, since: at, running: 0 };
    // a second's worth may come at once
    known.tokens = Math.min(perSecond, known.tokens + ((at - known.since) / 1000) * perSecond);
    known.since = at;
    callers.set(key, known);
    return known;
  };
  const forgetIdle = (): void => {
    for (const [key, { running }] of callers) {
      if (callers.size <= rememberedAtMost) return;
      if (running === 0) callers.delete(key);
    }
  };

  return ({ tenant, id }) => {
    const all = [
      { ...limits.principal, who: 'principal', caller: callerOf(JSON.stringify([tenant, id]), limits.principal) },
      { ...limits.tenant, who: 'tenant', caller: callerOf(JSON.stringify([tenant]), limits.tenant) },
    ];
    if (callers.size > rememberedAtMost) forgetIdle();
    const full = all.find(({ atOnce, caller }) => atOnce > 0 && caller.running >= atOnce);
    if (full) return refuse('CALLER_BUSY', `This ${full.who} has ${full.atOnce} requests under way at this replica, and may have no more.`, { retryAfterMs: busyMs });
    const fast = all.find(({ perSecond, caller }) => perSecond > 0 && caller.tokens < 1);
    if (fast) return refuse('CALLER_RATE_LIMITED', `This ${fast.who} may make ${fast.perSecond} requests a second at this replica.`, { retryAfterMs: Math.ceil(((1 - fast.caller.tokens) / fast.perSecond) * 1000) });
    for (const { caller } of all) {
      caller.tokens -= 1;
      caller.running += 1;
    }
    let left = false;
    return () => {
      if (left) return;
      left = true;
      for (const { caller } of all) caller.running -= 1;
    };
  };
}
