/** What the path of a call needs of the rooms beneath it; `main.ts` supplies them. One file for each family. */
export type * from './ports/approvals.js';
export type * from './ports/callbacks.js';
export type * from './ports/commits.js';
export type * from './ports/ledger.js';
export type * from './ports/locks.js';
export type * from './ports/operations.js';
export type * from './ports/reviews.js';
export type * from './ports/sessions.js';
export type * from './ports/upstream.js';
