/**
 * Tells "not one byte left this process" from "it may have": undici publishes `undici:client:sendHeaders` synchronously
 * before it writes a request's head to the socket, and never writes a head without publishing.
 *
 * A message is matched by the attempt id inside the head itself. AsyncLocalStorage and `undici:request:create` name
 * another attempt when a connection is reused: a POST that arrived was once marked "not sent" that way.
 */
import { subscribe } from 'node:diagnostics_channel';

/** Name of the correlating header; lower case, as undici writes it. */
export const attemptHeader = 'callgate-attempt';

export interface SentMark {
  /** True from just before the first byte; it never goes back. */
  readonly sent: boolean;
  /** To be called once nobody will ask any more. */
  release(): void;
}

interface Watch {
  sent: boolean;
  watchers: number;
}

const watches = new Map<string, Watch>();

/** Two sends under one attempt id share a watch, so that neither can be called unsent because the other was released. */
export function watchAttempt(attempt: string): SentMark {
  const watch = watches.get(attempt) ?? { sent: false, watchers: 0 };
  watch.watchers++;
  watches.set(attempt, watch);
  return {
    get sent() {
      return watch.sent;
    },
    release() {
      if (--watch.watchers === 0) watches.delete(attempt);
    },
  };
}

/** For tests and gauges: it returns to zero when nothing is in flight. */
export const watchedAttempts = () => watches.size;

/** The module function keeps the channel alive; a subscription on a channel object that is collected is lost. */
subscribe('undici:client:sendHeaders', (message) => {
  const attempt = attemptIn((message as { headers: string }).headers);
  const watch = attempt === null ? undefined : watches.get(attempt);
  if (watch) watch.sent = true;
});

const field = `\r\n${attemptHeader}: `;

function attemptIn(head: string): string | null {
  const at = head.indexOf(field);
  if (at < 0) return null;
  const start = at + field.length;
  return head.slice(start, head.indexOf('\r\n', start));
}
