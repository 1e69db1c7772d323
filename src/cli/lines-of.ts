/** The lines of a file of any size. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

/** @throws Error in words for a person when it cannot be read. */
export async function* linesOf(file: string): AsyncGenerator<string> {
  try {
    yield* createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY });
  } catch (error) {
    const { code, syscall } = error as { code?: string; syscall?: string };
    throw syscall === undefined ? error : new Error(`${file} cannot be read (${code})`);
  }
}
