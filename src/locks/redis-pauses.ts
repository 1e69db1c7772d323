/**
 * Pauses that domain services asked for, over replicas: told as they come, and kept under a key that expires with the pause for those who did
 * not listen then. Nobody waits for Redis: what it does not carry a replica is told by the service itself.
 */
import type { SharedPauses } from '../gate/ports.js';
import type { RedisLink } from './redis-link.js';

/** A longer pause is never shortened, whoever comes last. */
const lengthen = `if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then redis.call('set', KEYS[1], '', 'PX', ARGV[1]) end return redis.call('publish', ARGV[2], ARGV[3])`;

export interface RedisPauses extends SharedPauses {
  /** @param message anything that came over the channel */
  receive(message: unknown): void;
  /** The link is there again: what was told meanwhile was not heard. */
  resume(): void;
}

export function redisPauses(link: () => RedisLink, prefix: string, channel: string): RedisPauses {
  const looked = new Set<string>();
  let hear: (service: string, ms: number) => void = () => undefined;
  const key = (service: string): string => `${prefix}:pause:${service}`;
  return {
    tell(service, ms) {
      const px = Math.max(1, Math.ceil(ms));
      void link().ask((redis) => redis.eval(lengthen, 1, key(service), px, channel, JSON.stringify({ paused: service, ms: px })));
    },
    heard(listener) {
      hear = listener;
    },
    /** Once for each service and connection: after that, it is heard. */
    look(service) {
      if (looked.has(service) || !link().reachable()) return;
      looked.add(service);
      void link().ask((redis) => redis.pttl(key(service))).then((ms) => {
        if (ms === undefined) looked.delete(service);
        else if (ms > 0) hear(service, ms);
      });
    },
    receive(message) {
      if (message === null || typeof message !== 'object' || !('paused' in message) || !('ms' in message)) return;
      const { paused, ms } = message;
      if (typeof paused === 'string' && typeof ms === 'number' && ms > 0) hear(paused, ms);
    },
    resume: () => looked.clear(),
  };
}
