/** Secrets of the gateway: from a setting or a mounted file, and strong enough for production. */
import { readFileSync } from 'node:fs';
import type { ConfigProblem } from './problem.js';

export const minimumSecretBytes = 32;
const minimumEntropyBits = 96;
const placeholders = /change.?me|default|example|password|passw0rd|secret|insecure|development|placeholder|callgate/i;

export function readSecretFile(path: string, source: string): { value: string } | { problem: ConfigProblem } {
  let reason = 'it is empty';
  try {
    const value = readFileSync(path, 'utf8').replace(/\r?\n$/, '');
    if (value !== '') return { value };
  } catch (error) {
    reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  }
  const mend = 'mount a file with the secret in it, and let the user that runs Callgate read it';
  return { problem: { source, value: path, message: `the secret’s file cannot be used: ${reason}`, mend } };
}

/** Why a secret is not fit for production, or null. Completes "the secret …". */
export function secretWeakness(secret: string): string | null {
  if (Buffer.byteLength(secret) < minimumSecretBytes) return `is shorter than ${minimumSecretBytes} bytes`;
  if (placeholders.test(secret)) return 'looks like a placeholder';
  if (/^(.{1,16})\1+.{0,15}$/su.test(secret) || entropyBits(secret) < minimumEntropyBits) return 'repeats itself and can be guessed';
  return null;
}

/** Shannon's estimate over the characters: too kind to words, but zero for what is typed to get past a length. */
function entropyBits(text: string): number {
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  const length = [...text].length;
  return [...counts.values()].reduce((bits, count) => bits - count * Math.log2(count / length), 0);
}
