/**
 * One attempt from hand-over to its Exchange.
 *
 *   queued or connecting ──► withheld (fence, deadline)           not a byte, now or later
 *                        ──► writing ──► head ──► settled         from `writing` on it counts as sent
 *
 * undici calls `onRequestStart` in the same tick as, and just before, it writes the head (lib/dispatcher/client-h1.js,
 * writeH1). A throw there drops the request and leaves the connection alone, which `controller.abort` would destroy; so
 * it is where the last "may this still go out" is asked, and after a settled answer the reply is no for ever.
 */
import type { Dispatcher } from 'undici';
import type { ResponseBody } from './body.js';
import { BodyBytes } from './body.js';
import type { Exchange, FailureReason } from './exchange.js';
import { failureReason, Withheld } from './failure.js';
import type { SentMark } from './sent-marks.js';

export interface InFlightOptions {
  mark: SentMark;
  deadlineMs: number;
  /** On the clock of `performance.now()`. */
  sendBefore: number;
  maxResponseBytes: number;
}

type Head = { status: number; headers: Record<string, string> };

export class InFlight implements Dispatcher.DispatchHandler {
  readonly exchange: Promise<Exchange>;
  private resolve!: (exchange: Exchange) => void;
  private readonly startedAt = performance.now();
  private readonly deadline: NodeJS.Timeout;
  private readonly body: BodyBytes;
  private controller: Dispatcher.DispatchController | null = null;
  private head: Head | null = null;
  private settled = false;

  constructor(private readonly options: InFlightOptions) {
    this.body = new BodyBytes(options.maxResponseBytes);
    this.exchange = new Promise((resolve) => (this.resolve = resolve));
    // Neither an AbortSignal nor undici's own timeouts end an exchange that is queued, connecting or trickling.
    this.deadline = setTimeout(() => this.giveUp(), options.deadlineMs);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.settled) throw new Withheld('deadline');
    // undici puts a request back into its queue when its socket closes for a reason of undici's own: never a second time.
    if (this.controller) throw new Withheld('reset');
    if (performance.now() >= this.options.sendBefore) throw new Withheld('fence_passed');
    this.controller = controller;
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, string | string[] | undefined>): void {
    const interim = status < 200;
    if (!interim) this.head = { status, headers: joined(headers) };
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.head && !this.body.push(chunk)) this.cutOff(this.head, 'too_large');
  }

  onResponseEnd(): void {
    if (this.head) this.respond(this.head, this.body.read(this.head.headers['content-type']));
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.head) this.respond(this.head, { unreadable: 'truncated' });
    else this.fail(failureReason(error, this.sent));
  }

  private giveUp(): void {
    if (this.head) this.cutOff(this.head, 'deadline');
    else {
      this.fail('deadline');
      this.controller?.abort(new Error('deadline'));
    }
  }

  private cutOff(head: Head, unreadable: 'too_large' | 'deadline'): void {
    this.respond(head, { unreadable });
    this.controller?.abort(new Error(unreadable));
  }

  /**
   * The channel is the proof. That undici asked for the go-ahead and got it is the same fact seen from another side: should
   * an undici of the future rename the channel, attempts become ambiguous and are read back, instead of wrongly unsent.
   */
  private get sent(): boolean {
    return this.options.mark.sent || this.controller !== null;
  }

  private respond(head: Head, body: ResponseBody): void {
    this.settle({ kind: 'response', sent: true, ...head, body, ms: this.elapsed() });
  }

  private fail(reason: FailureReason): void {
    this.settle({ kind: 'failure', sent: this.sent, reason, ms: this.elapsed() });
  }

  private settle(exchange: Exchange): void {
    if (this.settled) return;
    this.settled = true;
    clearTimeout(this.deadline);
    this.options.mark.release();
    this.resolve(exchange);
  }

  private elapsed(): number {
    return performance.now() - this.startedAt;
  }
}

function joined(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  if (Object.values(headers).every((value) => typeof value === 'string')) return headers as Record<string, string>;
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value ?? '']));
}
