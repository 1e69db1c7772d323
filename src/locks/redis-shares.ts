/**
 * Bounds on callers over replicas. Redis keeps, for each caller, how many places each replica has and until when, and one bucket of tokens; a
 * replica that dies keeps its places for the rest of its lease and no longer. Times are those of Redis, so that clocks of replicas do not matter.
 */
import type { SharedBounds } from '../ports.js';
import type { RedisLink } from './redis-link.js';

const leaseMs = 6_000;

/** KEYS: places by replica, bucket. @returns places and tokens that were lent, and in how many milliseconds there is a token where there is none */
const lend = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local me, keep, places, atOnce = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lease, tokens, rate = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local lent, given, wait = 0, 0, 0
if atOnce > 0 then
  local others = 0
  local entries = redis.call('hgetall', KEYS[1])
  for n = 1, #entries, 2 do
    local count, ends = string.match(entries[n + 1], '(%d+):(%d+)')
    if tonumber(ends) <= now then redis.call('hdel', KEYS[1], entries[n])
    elseif entries[n] ~= me then others = others + count end
  end
  lent = math.max(0, math.min(places, atOnce - others - keep))
  if keep + lent > 0 then
    redis.call('hset', KEYS[1], me, string.format('%d:%d', keep + lent, now + lease))
    redis.call('pexpire', KEYS[1], lease)
  else redis.call('hdel', KEYS[1], me) end
  if lent < places and ARGV[8] ~= '' then redis.call('publish', ARGV[8], ARGV[9]) end
end
if rate > 0 and tokens > 0 then
  local had = redis.call('hmget', KEYS[2], 'tokens', 'at')
  local left = math.min(rate, (tonumber(had[1]) or rate) + math.max(0, now - (tonumber(had[2]) or now)) * rate / 1000)
  given = math.min(tokens, math.floor(left))
  if given == 0 then wait = math.ceil((1 - left) * 1000 / rate) end
  redis.call('hset', KEYS[2], 'tokens', left - given, 'at', now)
  redis.call('pexpire', KEYS[2], 2000)
end
return { lent, given, wait }`;

export interface RedisShares extends SharedBounds {
  /** @param message anything that came over the channel */
  receive(message: unknown): void;
  /** The link is there again: what was told meanwhile was not heard, and Redis may have lost what it knew. */
  resume(): void;
}

export function redisShares(link: () => RedisLink, { prefix, channel, self }: { prefix: string; channel: string; self: string }): RedisShares {
  let watcher: Parameters<SharedBounds['watch']>[0] = { recalled: () => undefined, restored: () => undefined };
  return {
    leaseMs,
    reachable: () => link().reachable(),
    async lend(caller, { keep, places, atOnce, tokens, perSecond, recall }) {
      const answer = await link().ask((redis) => redis.eval(
        lend, 2, `${prefix}:places:${caller}`, `${prefix}:tokens:${caller}`,
        self, keep, places, atOnce, leaseMs, tokens, perSecond, recall ? channel : '', JSON.stringify({ recalled: caller, by: self }),
      ));
      if (!Array.isArray(answer)) return undefined;
      const [lent = 0, given = 0, tokenInMs = 0] = answer as number[];
      return { places: lent, tokens: given, tokenInMs };
    },
    watch(listener) {
      watcher = listener;
    },
    receive(message) {
      if (message === null || typeof message !== 'object' || !('recalled' in message) || !('by' in message)) return;
      const { recalled, by } = message;
      if (typeof recalled === 'string' && by !== self) watcher.recalled(recalled);
    },
    resume: () => watcher.restored(),
  };
}
