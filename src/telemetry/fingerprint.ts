/** What stands in the place of a secret: nothing of it, but the same mark for the same value under the same key. */
import { createHmac } from 'node:crypto';

/** 32 bits of an HMAC-SHA256: enough to match two records by eye, too few to be a digest to attack. */
export function fingerprintSecret(key: Buffer | string, value: string): string {
  return `«redacted:${createHmac('sha256', key).update(value).digest('hex').slice(0, 8)}»`;
}

export const plainMark = '«redacted»';

export function isMark(text: string): boolean {
  return /^«redacted(:[0-9a-f]{8})?»$/.test(text);
}
