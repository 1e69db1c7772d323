/** `callgate receipts verify`: one line at a time, whatever the size of the file. */
import type { VerificationKeys } from '../chain/keys.js';
import { type Broken, type Known, readLine, Verification } from '../chain/verify.js';
import { linesOf } from './lines-of.js';
import { UsageError } from './usage.js';

export async function verifyReceipts(file: string, keys: VerificationKeys, known: readonly string[]): Promise<number> {
  const verification = new Verification(keys, known.map(readKnown));
  let number = 0;
  for await (const text of linesOf(file)) {
    number++;
    const line = readLine(text);
    const broken = line ? verification.accept(line) : { sequence: verification.summary.head.sequence + 1, what: `line ${number} is not one of an export` };
    if (broken) return tellBroken(file, verification, broken);
  }
  const broken = verification.finish();
  return broken ? tellBroken(file, verification, broken) : tellWhole(file, verification);
}

function tellBroken(file: string, verification: Verification, { sequence, what }: Broken): number {
  const { receipts, covered } = verification.summary;
  console.log(`${file}: BROKEN at sequence ${sequence}: ${what}`);
  console.log(`  before it: ${receipts} receipts that follow on one another, signed as far as sequence ${covered?.sequence ?? 0}`);
  return 1;
}

function tellWhole(file: string, verification: Verification): number {
  const { tenant, receipts, erased, checkpoints, head, covered } = verification.summary;
  console.log(`${file}: whole; tenant ${tenant ?? 'unknown'}, ${receipts} receipts, ${checkpoints} checkpoints`);
  if (erased > 0) console.log(`  of ${erased} the content was erased; their headers are whole`);
  if (covered) console.log(`  signed as far as sequence ${covered.sequence}, at ${covered.signedAt} with the key ${covered.key}`);
  const open = head.sequence - (covered?.sequence ?? 0);
  if (open > 0) console.log(`  ${open} at the end, from sequence ${head.sequence - open + 1}, are not covered by a checkpoint yet`);
  if (covered) console.log(`  keep this for the next time: --known ${covered.sequence}:${covered.link}`);
  return 0;
}

function readKnown(text: string): Known {
  const [, sequence, link] = /^(\d{1,15}):(sha256:[0-9a-f]{64})$/.exec(text) ?? [];
  if (!sequence || !link) throw new UsageError('--known takes a sequence and its link as an earlier verification told them, for instance 1200:sha256:…');
  return { sequence: Number(sequence), link };
}
