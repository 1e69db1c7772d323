/**
 * `callgate receipts export`: the chain of a tenant into a file, as it comes. What was cut off goes on after the last whole receipt in the file,
 * and so does an export that is run again later: it brings what has been written since.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { readLine } from '../chain/verify.js';

const tries = 5;
const pauseMs = 1_000;
const tailBytes = 1_048_576;
/** Of every line, also of one that was cut off: what begins otherwise is somebody else's file. */
const beginning = '{"type":"';

interface Reached { sequence: number; offset: number; ended: boolean }

export async function exportReceipts({ url, key, out }: { url: string; key: string; out: string }): Promise<number> {
  const file = await open(out, 'a+').then(async (made) => {
    await made.close();
    return open(out, 'r+');
  });
  try {
    let left = tries;
    for (let reached = await reachedIn(file, out); ;) {
      const failure = await follow(file, reached, new URL(`/v1/receipts/export?format=ndjson&after=${reached.sequence}`, url), key);
      const now = await reachedIn(file, out);
      if (now.ended) {
        console.log(`${out}: the receipts up to sequence ${now.sequence}, ${now.sequence - reached.sequence} of them new`);
        return 0;
      }
      left = now.sequence > reached.sequence ? tries : left - 1;
      if (left === 0) throw new Error(`${failure ?? 'the answer was cut off'}; the file has the receipts up to sequence ${now.sequence}, and the same command goes on there`);
      reached = now;
      await delay(pauseMs);
    }
  } finally {
    await file.close();
  }
}

/** @returns why it could not be read to its end, which another try may mend. @throws Error for what no other try will mend. */
async function follow(file: FileHandle, from: Reached, url: URL, key: string): Promise<string | null> {
  try {
    const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    if (!response.ok || !response.body) {
      const why = `the control plane answered ${response.status}: ${await detailOf(response)}`;
      if (response.status < 500) throw new Refused(why);
      return why;
    }
    await file.truncate(from.offset);
    let at = from.offset;
    for await (const chunk of response.body) {
      const bytes = Buffer.from(chunk as Uint8Array);
      for (let done = 0; done < bytes.length;) done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
      at += bytes.length;
    }
    return null;
  } catch (error) {
    if (error instanceof Refused || 'syscall' in (error as object)) throw error;
    return `${url.origin} cannot be reached or was lost`;
  }
}

class Refused extends Error {}

async function detailOf(response: Response): Promise<string> {
  const problem = await response.json().catch(() => null) as { title?: string; detail?: string } | null;
  return problem?.detail ?? problem?.title ?? 'nothing that can be read';
}

/** Looks from the end, in ever larger pieces, for the last whole line of a receipt. */
async function reachedIn(file: FileHandle, name: string): Promise<Reached> {
  const { size } = await file.stat();
  for (let bytes = Math.min(size, tailBytes); ; bytes = Math.min(size, bytes * 2)) {
    const { buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, size - bytes);
    if (bytes === size && !beginning.startsWith(buffer.toString('latin1', 0, beginning.length))) throw foreign(name);
    const reached = lastWhole(buffer, size - bytes, name);
    if (reached || bytes === size) return reached ?? { sequence: 0, offset: 0, ended: endsIn(buffer) };
  }
}

/** Everything behind the last receipt is written again: checkpoints on it, the end of the earlier export, and what was cut off. */
function lastWhole(tail: Buffer, start: number, name: string): Reached | null {
  let end = tail.lastIndexOf(0x0a);
  let ended = false;
  for (let whole = end; whole >= 0; whole = end) {
    const begin = whole === 0 ? 0 : tail.lastIndexOf(0x0a, whole - 1) + 1;
    if (begin === 0 && start > 0) return null;
    const line = readLine(tail.toString('utf8', begin, whole));
    if (!line) throw foreign(name);
    if (line.type === 'end') ended ||= whole === tail.length - 1;
    const offset = start + whole + 1;
    if (line.type === 'receipt') return { sequence: line.header.sequence, offset, ended };
    if (line.type === 'gone') return { sequence: line.sequence, offset, ended };
    end = begin - 1;
  }
  return null;
}

function foreign(name: string): Error {
  return new Error(`${name} is there and is not an export of receipts: choose another file`);
}

function endsIn(tail: Buffer): boolean {
  return readLine(tail.toString('utf8').trimEnd().split('\n').at(-1) ?? '')?.type === 'end';
}
