/** A place at a domain service: for how long it is held, and what it means for a new call that there is none. */
import type { ToolPlan } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';
import type { Exchange } from '../upstream/exchange.js';
import type { Closed, Entrance, Place } from './ports.js';

export function closedRefusal({ closed, forMs }: Closed): Refusal {
  const told = { retryAfterMs: Math.ceil(forMs) };
  switch (closed) {
    case 'suspended': return refuse('UPSTREAM_SUSPENDED', 'The service has failed repeatedly and is being left alone for a moment. Nothing was sent.', told);
    case 'busy':
    case 'retry_ratio': return refuse('UPSTREAM_BUSY', 'All places at the service were taken. Nothing was sent.', told);
    case 'paused': return refuse('RATE_LIMITED', 'The service asked for a pause.', told);
  }
}

export async function holding(place: Place, exchange: Promise<Exchange>): Promise<Exchange> {
  let ended: Exchange | undefined;
  try {
    ended = await exchange;
    return ended;
  } finally {
    place.leave(ended);
  }
}

export function writeTraffic({ idempotency }: ToolPlan): Entrance['traffic'] {
  return idempotency ? 'keyed_write' : 'write';
}
