/** Cursors of keyset pages. They are opaque, not secret: the worst that a forged one can do is to begin a page elsewhere in the caller's own tenant. */
import { BadCursor } from '../ports.js';

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const id = /^[!-~]{1,64}$/;

const shapes = {
  receipts: [/^rcp_[0-9a-z]{26}$/],
  operations: [instant, id],
  approvals_pending: [instant, id],
  approvals_ended: [instant, id],
  reviews_open: [instant, id],
  reviews_decided: [instant, id],
} as const;

export type List = keyof typeof shapes;

/** @param key the sort key of the last item of a page, as text that compares as the database compares it. */
export function writeCursor(list: List, key: readonly string[]): string {
  return Buffer.from(JSON.stringify([list, ...key])).toString('base64url');
}

/** The sort key after which the page begins. @throws BadCursor for whatever `writeCursor` did not write for this list. */
export function readCursor(list: List, cursor: string): string[] {
  const [of, ...key] = parse(cursor);
  const shape = shapes[list];
  const fits = of === list && key.length === shape.length && shape.every((pattern, n) => typeof key[n] === 'string' && pattern.test(key[n]));
  if (!fits || (shape[0] === instant && Number.isNaN(Date.parse(key[0] as string)))) throw new BadCursor('the cursor is not one that this service gave');
  return key as string[];
}

function parse(cursor: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
