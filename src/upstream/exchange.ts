/** What a send to a domain service reports: facts about bytes, no judgement (that is the reconcile stage's). */
import type { RenderedRequest, UpstreamPlan } from '../contract/plan.js';
import type { Json } from '../model.js';

export type FailureReason =
  | 'dns' | 'refused' | 'connect_timeout' | 'tls' | 'unreachable'
  /** The send fence had passed, or the call was given up, before a byte was written. */
  | 'fence_passed' | 'no_credential'
  /** The egress guard does not connect to where the service is. */
  | 'address_refused'
  | 'reset' | 'deadline' | 'protocol';

export type Exchange =
  | {
      kind: 'response';
      sent: true;
      status: number;
      /** Lower-case names; of a repeated header, the values joined with `, `. */
      headers: Record<string, string>;
      /** Parsed strictly; `unreadable` when it was cut, malformed, over the size limit or not JSON at all. An empty body is `{ json: null }`. */
      body: { json: Json } | { unreadable: 'truncated' | 'malformed' | 'too_large' | 'not_json' | 'deadline' };
      ms: number;
    }
  | {
      kind: 'failure';
      /** False is proof that not one byte of this request left the process; true means it may have. */
      sent: boolean;
      reason: FailureReason;
      ms: number;
    };

export interface SendOptions {
  upstream: UpstreamPlan;
  /** Unique per attempt; travels as the header `callgate-attempt`, by which the sent mark is correlated. */
  attempt: string;
  /** Whole exchange, connect and body included, in milliseconds. */
  deadlineMs: number;
  /** On the clock of `performance.now()`: not a byte is written at or after it. */
  sendBefore?: number;
}

export interface Upstream {
  /** Never rejects: whatever happens is an Exchange. */
  send(request: RenderedRequest, options: SendOptions): Promise<Exchange>;
  /** Takes nothing new and waits for what is in flight, at most its deadlines; may be called again. */
  close(): Promise<void>;
}
