/** What a file of the operator's says now: looked at when it is asked for, and read again when it has changed. */
import { statSync } from 'node:fs';

export interface FollowOptions {
  /** How long what it said is taken as current without a look. */
  lookMs: number;
  /** Once for each change that cannot be used; what it said before stays in force. */
  failed(error: Error): void;
  /** Monotonic, in milliseconds. */
  now?: () => number;
}

/** @throws Error of `read` when it cannot be used at the start */
export function followFile<T>(file: string, read: () => T, { lookMs, failed, now = () => performance.now() }: FollowOptions): () => T {
  let seen = stateOf(file);
  let current = read();
  let lookedAt = now();
  return () => {
    if (now() - lookedAt < lookMs) return current;
    lookedAt = now();
    const state = stateOf(file);
    if (state === seen) return current;
    seen = state; // before it is read: what changes meanwhile is seen the next time
    try {
      current = read();
    } catch (error) {
      failed(error as Error);
    }
    return current;
  };
}

/** Links are followed: a secret store puts another file in the place of one. */
function stateOf(file: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${ino} ${size} ${mtimeMs}`;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}
