/**
 * Everything that one attempt can come to, each with what the specification says that it proves (semantics.md section 4) — stated here by hand,
 * never taken from the code — and how the scripted service, or the way to it, brings it about.
 */
import type { ServerResponse } from 'node:http';
import type { ErrorRule } from '../../../src/contract/plan.js';
import type { Outcome } from '../../../src/model.js';
import type { Exchange, FailureReason } from '../../../src/upstream/exchange.js';

/** The rows of the specification's table, read by what follows from them. */
export const classes = {
  not_sent: 'no request byte left',
  committed: '2xx that matches the result schema',
  claimed: '2xx unreadable, truncated or off the schema: an effect is claimed',
  accepted: '202, or accepted as the contract says',
  rejected: 'refused: mapped, or an unmapped 4xx',
  version_conflict: 'refused because the version moved on: 412, or mapped',
  not_found: 'not there, as the contract says',
  not_committed: 'mapped to no effect',
  rate_limited: '429, or mapped to a limited rate',
  unknown: 'proves nothing: an effect may have happened',
} as const;
export type Class = keyof typeof classes;

/** What may be true behind it: whether this attempt took effect. */
export type World = 'happened' | 'nothing';

/** On the way there, so that not one byte arrives: a real refusal where the loopback has one, else the sender's own finding. */
export type Unsent = 'refused' | 'tls' | 'fence_passed' | 'no_credential' | { finding: FailureReason };

export interface Observation {
  seen: string;
  /** Of a write, as the first attempt. */
  proves: Class;
  /** Of a read, where that is another: nothing is at stake, so whatever is no answer may be asked again. null: no read can come to it. */
  read?: Class | 'retried' | 'paused' | null;
  /** By the contract's code, where it maps it. */
  code?: string;
  by: { unsent: Unsent } | { wire(response: ServerResponse): void };
}

const json = { 'content-type': 'application/json' };
const says = (status: number, body?: object | string, headers: Record<string, string> = {}) => ({
  wire: (response: ServerResponse): void => void response.writeHead(status, { ...json, ...headers }).end(typeof body === 'object' ? JSON.stringify(body) : body),
});
/** Bytes that no server writes by itself; nothing more comes after them on this connection. */
const raw = (bytes: string, then: 'close' | 'stall' = 'close') => ({
  wire: ({ socket }: ServerResponse): void => void socket?.write(bytes, () => { if (then === 'close') socket.destroy(); }),
});
const cut = (head: string): string => `HTTP/1.1 ${head}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"id":"to`;
const other = { code: 'OTHER' };
export const answerOf = (id: string): object => ({ id });
const fitting = answerOf('told');

/** The other form of the header, to the whole second. */
const inSeconds = (seconds: number): string => new Date(Date.now() + seconds * 1000).toUTCString();

/** One entry for every reason that the sender can give: a new one does not compile until it is placed. */
const unsent: Record<FailureReason, Unsent> = {
  refused: 'refused', dns: { finding: 'dns' }, connect_timeout: { finding: 'connect_timeout' }, tls: 'tls', unreachable: { finding: 'unreachable' },
  fence_passed: 'fence_passed', no_credential: 'no_credential', address_refused: { finding: 'address_refused' },
  // before the first byte as well: a deadline that ended while connecting, a peer that hung up in the handshake, a header that HTTP cannot carry
  deadline: { finding: 'deadline' }, reset: { finding: 'reset' }, protocol: { finding: 'protocol' },
};

const lost: Partial<Record<FailureReason, Observation['by'][]>> = {
  reset: [{ wire: ({ socket }) => void socket?.resetAndDestroy() }, { wire: ({ socket }) => void socket?.destroy() }, raw('HTTP/1.1 20')],
  deadline: [{ wire: () => undefined }],
  protocol: [raw('SSH-2.0-OpenSSH_9.7\r\n')],
};
const lostAs: Partial<Record<FailureReason, string[]>> = {
  reset: ['connection reset, request sent', 'connection closed without an answer', 'cut off within the head of the answer'],
  deadline: ['no answer until the deadline'], protocol: ['an answer that is no HTTP'],
};

type Unreadable = Extract<Extract<Exchange, { kind: 'response' }>['body'], { unreadable: string }>['unreadable'];
/** Of a 2xx, every way in which a body can be unreadable. */
const unreadable: Record<Unreadable, Observation['by']> = {
  truncated: raw(cut('201 Created')), malformed: says(201, '{"id":'), not_json: says(200, '<p>Thank you.</p>', { 'content-type': 'text/html' }),
  too_large: says(201, { id: 'x'.repeat(5_000) }), deadline: raw(cut('201 Created'), 'stall'),
};

const bodies: Record<Unreadable, string> = { truncated: 'cut off', malformed: 'malformed', not_json: 'no JSON', too_large: 'too large', deadline: 'not whole by the deadline' };

/** Every outcome that a contract can map an error to. */
const mapped: Record<Outcome, Observation[]> = {
  rejected: [{ seen: '422 mapped to `rejected`', proves: 'rejected', code: 'REFUSED_THERE', by: says(422, { code: 'REFUSED' }) }],
  not_committed: [
    { seen: '503 mapped to `not_committed`', proves: 'not_committed', read: 'retried', by: says(503, { code: 'NOT_STARTED' }) },
    { seen: '423 mapped to `not_committed`', proves: 'not_committed', read: 'retried', code: 'LOCKED_THERE', by: says(423, { code: 'LOCKED' }) },
    { seen: '503 mapped to `not_committed`, with Retry-After', proves: 'not_committed', read: 'paused', by: says(503, { code: 'NOT_STARTED' }, { 'retry-after': '1' }) },
  ],
  committed: [{ seen: '409 mapped to `committed`', proves: 'claimed', read: null, by: says(409, { code: 'DONE' }) }],
  accepted: [{ seen: '409 mapped to `accepted`', proves: 'accepted', read: null, by: says(409, { code: 'RUNNING' }) }],
  unknown: [{ seen: '500 mapped to `unknown`', proves: 'unknown', read: 'retried', by: says(500, { code: 'UNSURE' }) }],
};

type ErrorClass = NonNullable<ErrorRule['class']>;
const mappedTo: Record<ErrorClass, Observation> = {
  version_conflict: { seen: '412 mapped to `version_conflict`', proves: 'version_conflict', read: 'rejected', code: 'ITEM_CHANGED', by: says(412, { code: 'STALE' }) },
  rate_limited: { seen: '503 mapped to `rate_limited`', proves: 'rate_limited', by: says(503, { code: 'TOO_FAST' }) },
  not_found: { seen: '404 mapped to `not_found`', proves: 'not_found', by: says(404, { code: 'NO_ITEM' }) },
};

const of = (proves: Class, statuses: number[], more: Partial<Observation> = {}): Observation[] =>
  statuses.map((status) => ({ seen: String(status), proves, by: says(status, other), ...more }));

/** The first of each class stands for it where not every one is driven through every cell. */
export const observations: readonly Observation[] = [
  ...Object.entries(unsent).map(([reason, how]): Observation => ({ seen: `not sent: ${reason}`, proves: 'not_sent', read: 'retried', by: { unsent: how } })),
  ...Object.entries(lost).flatMap(([reason, ways]) => ways.map((by, n): Observation => ({ seen: lostAs[reason as FailureReason]?.[n] as string, proves: 'unknown', read: 'retried', by }))),
  { seen: '200 that matches the schema', proves: 'committed', by: says(200, fitting) },
  { seen: '201 that matches the schema', proves: 'committed', by: says(201, fitting) },
  ...Object.entries(unreadable).map(([how, by]): Observation => ({ seen: `2xx whose body is ${bodies[how as Unreadable]}`, proves: 'claimed', read: 'retried', by })),
  { seen: '2xx off the schema', proves: 'claimed', read: 'retried', by: says(200, { id: 7 }) },
  { seen: '204 without a body', proves: 'claimed', read: 'retried', by: says(204) },
  { seen: '202', proves: 'accepted', read: 'retried', by: says(202, { queued: true }) },
  { seen: '202 cut off', proves: 'accepted', read: 'retried', by: raw(cut('202 Accepted')) },
  { seen: '202 whose body would match the schema', proves: 'accepted', read: 'committed', by: says(202, fitting) },
  { seen: '410 that `not_found` names', proves: 'not_found', by: says(410, other) },
  { seen: '422 whose rule cannot be evaluated', proves: 'unknown', read: 'rejected', by: raw(cut('422 Unprocessable')) },
  ...of('rejected', [400, 401, 403, 404, 405, 409, 422, 451]),
  ...of('version_conflict', [412], { read: 'rejected' }),
  ...Object.values(mapped).flat(), ...Object.values(mappedTo),
  ...of('unknown', [408, 425], { read: 'retried' }),
  { seen: '429', proves: 'rate_limited', by: says(429, other) },
  { seen: '429 with Retry-After in seconds', proves: 'rate_limited', by: says(429, other, { 'retry-after': '1' }) },
  { seen: '429 with Retry-After as a date', proves: 'rate_limited', by: { wire: (response) => says(429, other, { 'retry-after': inSeconds(2) }).wire(response) } },
  { seen: '304', proves: 'unknown', read: 'retried', by: says(304) },
  ...of('unknown', [301, 307, 500, 501, 502, 503, 504, 599], { read: 'retried' }),
  { seen: '503 with Retry-After', proves: 'unknown', read: 'paused', by: says(503, other, { 'retry-after': '1' }) },
];

/** Nothing can have happened where the specification says so; else both may be true, and a service that claims an effect may be wrong. */
export const worldsOf = ({ proves }: Observation): World[] =>
  (['committed', 'claimed', 'accepted', 'unknown'] as Class[]).includes(proves) ? ['happened', 'nothing'] : ['nothing'];
