/**
 * The service's memory over a restart: a file with one JSON line for each thing that happened, written before it is made
 * so and before its answer leaves. What the kernel has taken survives `kill -9`, so nothing is flushed to the disk; the
 * file is not meant to outlive the machine.
 */
import { appendFileSync, closeSync, ftruncateSync, openSync, readFileSync } from 'node:fs';
import type { Answer } from './answer.js';
import type { Write } from './routes.js';
import type { Change } from './shop.js';

/** A write that is to be decided later; `due` in milliseconds since 1970. */
interface Accepted { write: Write; effects: number; due: number }

/** What came of a write: the changes that it made, or the answer that refused it. */
export type Outcome = { changes: readonly [Change, ...Change[]] } | { refused: Answer };
interface Decided { key: string; fingerprint: string; outcome: Outcome }

/** One line. `arrived` names the route of a request; `decided` holds all that the write changed, so none is there by half. */
export type Entry = { arrived: string } | { accepted: Accepted } | { decided: Decided };

export class JournalError extends Error {}

export class Journal {
  readonly #path: string;
  readonly #fd: number;
  #size = 0;

  /** @throws JournalError when the file can be neither opened nor made. */
  constructor(path: string) {
    this.#path = path;
    try {
      this.#fd = openSync(path, 'a+', 0o600);
    } catch (error) {
      throw new JournalError(`The journal \`${path}\` cannot be opened: ${reasonOf(error)}. Name a file in a folder that can be written.`);
    }
  }

  /**
   * Hands over what was written before this process, oldest first; once, before anything is appended. A last line without
   * an end was cut by a kill in the middle of its write: nobody saw an answer to it, and it is cut off.
   * @throws JournalError for a line that `take` cannot make so.
   */
  replay(take: (entry: Entry) => void): void {
    const bytes = readFileSync(this.#fd);
    this.#size = bytes.lastIndexOf('\n') + 1;
    if (this.#size < bytes.length) ftruncateSync(this.#fd, this.#size);
    for (let from = 0, line = 1; from < this.#size; line += 1) {
      const end = bytes.indexOf('\n', from);
      try {
        take(JSON.parse(bytes.toString('utf8', from, end)) as Entry);
      } catch (error) {
        throw new JournalError(
          `Line ${line} of the journal \`${this.#path}\` cannot be replayed: ${reasonOf(error)}. Move the file away to begin anew.`,
        );
      }
      from = end + 1;
    }
  }

  /** @throws JournalError when the disk is full or the like; then nothing of the line is left. */
  append(entry: Entry): void {
    const line = Buffer.from(`${JSON.stringify(entry)}\n`);
    try {
      appendFileSync(this.#fd, line);
    } catch (error) {
      ftruncateSync(this.#fd, this.#size);
      throw new JournalError(`The journal \`${this.#path}\` cannot be written: ${reasonOf(error)}. Make room for it.`);
    }
    this.#size += line.length;
  }

  clear(): void {
    ftruncateSync(this.#fd, 0);
    this.#size = 0;
  }

  close(): void {
    closeSync(this.#fd);
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
