/** What stands in the place of a secret: nothing of it, but the same mark for the same value under the same key. */
import { createHmac } from 'node:crypto';

/** 32 bits of an HMAC-SHA256: enough to match two records by eye, too few to be a digest to attack. */
export function fingerprintSecret(key: Buffer | string, value: string): string {
  return `«redacted:${createHmac('sha256', key).update(value).digest('hex').slice(0, 8)}»`;
}

/** What is left of a person's id where what was said about them is erased: equal for equal ids under one key, long enough to be compared by a program. */
export function markOfSubject(key: Buffer | string, tenant: string, subject: string): string {
  return `erased:${createHmac('sha256', key).update(JSON.stringify(['callgate/erased-subject/1', tenant, subject])).digest('base64url').slice(0, 22)}`;
}

export const plainMark = '«redacted»';

export function isMark(text: string): boolean {
  return /^«redacted(:[0-9a-f]{8})?»$/.test(text);
}
