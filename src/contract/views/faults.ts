/** Where a write can be torn, and what has to be true afterwards (semantics.md sections 4 and 6). */
import type { Disposition, NextAction } from '../../model.js';
import type { ToolPlan } from '../plan.js';
import { type Settlement, settlement } from './governed.js';

export interface FaultEpisode {
  fault: string;
  /** Of the upstream, before it is torn. */
  upstream: 'not_reached' | 'does_nothing' | 'commits';
  /** How the outcome gets known. */
  settled_by: Settlement | 'sending_again' | 'nothing_to_settle';
  /** Any of these, in the end. */
  finally: { disposition: Disposition; next_action: NextAction }[];
  /** At the upstream, over all attempts. */
  effects: { min: number; max: number };
}

const none = { min: 0, max: 0 };
const one = { min: 1, max: 1 };
const executed = { disposition: 'executed', next_action: 'continue' } as const;
const failed = { disposition: 'failed', next_action: 'retry' } as const;
const review = { disposition: 'review', next_action: 'escalate' } as const;
const notCommitted = { disposition: 'rejected', next_action: 'retry' } as const;
const rateLimited = { disposition: 'rate_limited', next_action: 'retry' } as const;

/** The answer is lost, in one way or another. */
const lost = [
  'the connection is reset before an answer',
  'no answer before the deadline',
  'the answer is an HTTP 500 that the contract does not map',
  'the gateway is killed after the request left',
];
/** Success is claimed, and what it was cannot be read. */
const claimed = ['the answer is a 2xx that ends in the middle of its body', 'the answer is a 2xx that does not fit the result schema'];

export function faultEpisodes(plan: ToolPlan): FaultEpisode[] {
  return plan.effect === 'none' ? readFaults : writeFaults(plan);
}

const readFaults: FaultEpisode[] = [...lost.slice(0, 3), 'the connection is refused'].map((fault) => ({
  fault,
  upstream: 'does_nothing',
  settled_by: 'sending_again',
  finally: [executed, failed],
  effects: none,
}));

function writeFaults(plan: ToolPlan): FaultEpisode[] {
  const by = settlement(plan);
  const settled = by === 'review' ? [review] : [executed];
  const commits = [...lost, ...claimed].map(
    (fault): FaultEpisode => ({ fault, upstream: 'commits', settled_by: by, finally: settled, effects: one }),
  );
  const nothing = lost.map((fault): FaultEpisode => {
    const end = by === 'read_back' ? [executed, notCommitted, ...(plan.idempotency ? [] : [review])] : settled;
    return {
      fault,
      upstream: 'does_nothing',
      settled_by: by,
      finally: end,
      effects: by === 'review' ? none : by === 'read_back' ? { min: 0, max: 1 } : one,
    };
  });
  return [...beforeSending, ...commits, ...nothing, ...readbackFaults(plan), ...afterwards];
}

const beforeSending: FaultEpisode[] = [
  { fault: 'the connection is refused', upstream: 'not_reached', settled_by: 'sending_again', finally: [failed], effects: none },
  {
    fault: 'the answer is HTTP 429 each time',
    upstream: 'does_nothing',
    settled_by: 'sending_again',
    finally: [rateLimited],
    effects: none,
  },
  {
    fault: 'the gateway is killed before the intent is stored, and the call sent again',
    upstream: 'not_reached',
    settled_by: 'sending_again',
    finally: [executed],
    effects: one,
  },
];

function readbackFaults({ readback }: ToolPlan): FaultEpisode[] {
  if (!readback) return [];
  const fault = 'the connection is reset before an answer, and the read-back cannot be made before the reconcile deadline';
  return [{ fault, upstream: 'commits', settled_by: 'read_back', finally: [review], effects: one }];
}

const afterwards: FaultEpisode[] = [
  {
    fault: 'the gateway is killed after the receipt, and the call sent again',
    upstream: 'commits',
    settled_by: 'nothing_to_settle',
    finally: [{ disposition: 'replayed', next_action: 'continue' }],
    effects: one,
  },
];
