/**
 * The way to Redis: one connection for commands, one that listens. Whatever happens to Redis (refused, killed, stopped, half-open,
 * a standby after a failover), a question is answered in bounded time, at once while Redis is known to be away, and both
 * connections come back by themselves.
 */
import { Redis } from 'ioredis';

export interface RedisLinkOptions {
  url: string;
  channel: string;
  onMessage(message: string): void;
  /** On each change and after the first attempt; not on each failure. */
  onReachable?: ((reachable: boolean) => void) | undefined;
  /** For how long an answer is waited for. */
  answerMs?: number | undefined;
}

export interface RedisLink {
  /** Undefined: Redis is away, or did not answer in time; the command may have been carried out all the same. */
  ask<T>(command: (redis: Redis) => Promise<T>): Promise<T | undefined>;
  /** True while commands are taken and messages are heard. */
  reachable(): boolean;
  close(): void;
}

const shippedAnswerMs = 250;
const connectMs = 1_000;
/** A connection that owes an answer for as long as so many are waited for is given up and made anew: it may be half-open. */
const silentAnswers = 3;
/** Without traffic nothing else would notice that Redis is gone. */
const heartbeatMs = 1_000;
const maxReconnectMs = 2_000;

const shared = {
  connectTimeout: connectMs,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  disableClientInfo: true,
  retryStrategy: (times: number) => Math.min(maxReconnectMs, 50 * 2 ** Math.min(times, 6)) * (0.5 + Math.random() / 2),
  // What was the primary takes no writes after a failover.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
};

export function openRedisLink({ url, channel, onMessage, onReachable, answerMs = shippedAnswerMs }: RedisLinkOptions): RedisLink {
  const socketTimeout = silentAnswers * answerMs;
  const commands = new Redis(url, { ...shared, socketTimeout, commandTimeout: answerMs, enableAutoPipelining: true });
  // Subscribed by hand at each `ready`: ioredis would subscribe again only to what it had once subscribed to, and reject where nobody catches.
  const listener = new Redis(url, { ...shared, socketTimeout, autoResubscribe: false });
  let listens = false;
  let closed = false;
  let told: boolean | undefined;
  const reachable = (): boolean => listens && commands.status === 'ready';
  const tell = (): void => {
    if (closed || told === reachable()) return;
    told = reachable();
    onReachable?.(told);
  };
  const listen = (): void => {
    listener.subscribe(channel).then(() => {
      listens = true;
      if (reachable()) tell();
    }, () => undefined); // again at the next heartbeat, or the next connection
  };

  listener.on('message', (_channel, message: string) => onMessage(message));
  listener.on('ready', listen);
  listener.on('close', () => { listens = false; });
  commands.on('ready', () => { if (reachable()) tell(); });
  for (const connection of [commands, listener]) {
    connection.on('error', () => undefined); // each is followed by `close`
    connection.on('close', tell);
  }
  const heartbeat = setInterval(() => {
    if (commands.status === 'ready') commands.ping().catch(() => undefined);
    if (listener.status !== 'ready') return;
    if (listens) listener.ping().catch(() => undefined);
    else listen();
  }, heartbeatMs);
  heartbeat.unref();

  return {
    ask: (command) => (commands.status === 'ready' ? command(commands).catch(() => undefined) : Promise.resolve(undefined)),
    reachable,
    close() {
      closed = true;
      clearInterval(heartbeat);
      commands.disconnect();
      listener.disconnect();
    },
  };
}
