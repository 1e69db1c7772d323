/**
 * What an answer means that the contract does not map (semantics.md section 4). Every reachable row stands on the page of every tool, for
 * whoever approves it is answerable for these as well; test/contract/views/documentation.test.ts holds them against what the gate does.
 */
export interface Unmapped {
  readonly answers: string;
  /** Of the answer; null where there is none. */
  readonly holds: (status: number | null) => boolean;
  readonly means: string;
  readonly code: string;
  readonly next: string;
}

const among = (...listed: number[]) => (status: number | null): boolean => status !== null && listed.includes(status);
const success = (status: number | null): boolean => status !== null && status >= 200 && status < 300;
const refusal = (status: number | null): boolean => status !== null && status >= 400 && status < 500 && ![408, 425, 429].includes(status);

const refused: Unmapped = { answers: 'any other 4xx', holds: refusal, means: 'refused, nothing done', code: 'UPSTREAM_REJECTED', next: 'abandon' };
const limited: Unmapped = { answers: '429', holds: among(429), means: 'nothing done', code: 'RATE_LIMITED', next: 'retry' };
const passing = (status: number | null): boolean => !success(status) && !refusal(status) && status !== 429;

export const unmappedReads: readonly Unmapped[] = [
  refused,
  limited,
  { answers: '2xx that cannot be read, 3xx, 408, 425, any other 5xx, or nothing', holds: (status) => success(status) || passing(status), means: 'asked again, then failed', code: 'READ_FAILED', next: 'retry' },
];

export const unmappedWrites: readonly Unmapped[] = [
  { answers: 'not reached, no byte sent', holds: () => false, means: 'nothing done', code: 'UPSTREAM_UNREACHABLE', next: 'retry' },
  { answers: '202', holds: among(202), means: 'accepted, not done yet', code: '', next: 'wait' },
  { answers: 'any other 2xx that cannot be read', holds: (status) => success(status) && status !== 202, means: 'said to be done: looked for as below', code: '', next: 'wait' },
  refused,
  limited,
  { answers: '3xx, 408, 425, any other 5xx, a reset, or nothing in time', holds: passing, means: 'unknown: settled as below', code: '', next: 'wait' },
  { answers: 'anything but a success, to an attempt after one that is unknown', holds: () => false, means: 'unknown: settled as below', code: '', next: 'wait' },
];
