/**
 * Pauses that domain services asked for (semantics.md section 4, 429), kept by every caller in this process and told to the other
 * replicas. Each replica decides by what it knows itself, so that nothing ever waits for the others.
 */
import type { SharedPauses } from '../gate/ports.js';

export interface Pauses {
  /** Milliseconds still to wait; 0 when the service may be called now. */
  leftMs(service: string): number;
  /** A shorter pause never shortens a longer one. @param ms from now */
  pause(service: string, ms: number): void;
}

/** Of many callers that are told the same pause in the same moment, one tells the other replicas. */
const worthTellingMs = 100;

/** @param capMs also of what other replicas tell */
export function keepPauses(capMs: number, shared?: SharedPauses, now: () => number = () => performance.now()): Pauses {
  const ends = new Map<string, number>();
  const leftMs = (service: string): number => {
    const left = (ends.get(service) ?? 0) - now();
    if (left <= 0) ends.delete(service);
    return Math.max(0, left);
  };
  const lengthen = (service: string, ms: number): number => {
    const before = leftMs(service);
    const asked = Math.min(ms, capMs);
    if (asked > before) ends.set(service, now() + asked);
    return asked - before;
  };
  shared?.heard(lengthen);
  return {
    leftMs(service) {
      shared?.look(service);
      return leftMs(service);
    },
    pause(service, ms) {
      if (lengthen(service, ms) > worthTellingMs) shared?.tell(service, leftMs(service));
    },
  };
}
