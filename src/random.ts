/** Random bytes of the system's generator, taken from it a page at a time: for twelve bytes a call of its own costs twenty times as much. A leaf. */
import { randomFillSync } from 'node:crypto';

const page = Buffer.alloc(4096);
let used = page.length;

/** One byte that nobody else gets. */
export function randomByte(): number {
  if (used === page.length) refill();
  return page[used++] as number;
}

/** @param length at most a page. The bytes are given to nobody else, and stay as they are. */
export function randomPiece(length: number): Buffer {
  if (used + length > page.length) refill();
  used += length;
  return Buffer.from(page.subarray(used - length, used));
}

function refill(): void {
  randomFillSync(page);
  used = 0;
}
