/** What services tell by themselves, from its arrival to its end. */
import type { Json } from '../../model.js';
import type { Operation } from './operations.js';

/** What a service told by itself, its signature checked. */
export interface CallbackEvent {
  service: string;
  id: string;
  /** The key of the operation that it is about. */
  key: string;
  receivedAt: string;
  /** Lower-case names. */
  headers: Record<string, string>;
  body: Json;
}

type CallbackName = Pick<CallbackEvent, 'service' | 'id' | 'key'>;

/** `event` null: it cannot be read any more. */
export interface KeptCallback extends CallbackName { tries: number; ageMs: number; event: CallbackEvent | null }

/** Events from their arrival to the moment at which their operation has settled. */
export interface Callbacks {
  /** `repeated`: an event of this id is there already; `differs`: with another body. */
  keep(event: Pick<CallbackEvent, 'service' | 'id' | 'headers' | 'body'> & { keys: readonly string[]; bytes: Buffer }): Promise<'kept' | 'repeated' | 'differs'>;
  /** Those that are not weighed yet, in the order of arrival. */
  about(upstreamKey: string): Promise<CallbackEvent[]>;
  take(limit: number, leaseMs: number): Promise<KeptCallback[]>;
  /** The newest that was sent under the key, of whichever tenant. */
  operation(upstreamKey: string): Promise<Operation | null>;
  /** An open operation is looked at now. `effectSeen`: no transition denies the effect from here on, nor sends again. */
  hasten(operation: { tenant: string; id: string }, effectSeen: boolean): Promise<void>;
  end(event: CallbackName, weighed: 'agrees' | 'contradicts' | 'says_nothing' | 'unmatched', operation: { tenant: string; id: string } | null): Promise<void>;
  defer(event: CallbackName, ms: number, operation: { tenant: string; id: string } | null): Promise<void>;
}
