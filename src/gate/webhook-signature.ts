/** Signatures as Standard Webhooks has them: `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64, of which one has to hold. Pure. */
import { createHmac, timingSafeEqual } from 'node:crypto';

const fewestKeyBytes = 24;

/** @param secret `whsec_` and base64, with or without the prefix. @returns undefined: it is none */
export function signingKey(secret: string | undefined): Buffer | undefined {
  const text = secret?.replace(/^whsec_/, '') ?? '';
  const key = Buffer.from(text, 'base64');
  return key.length >= fewestKeyBytes && /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? key : undefined;
}

/** Of one request; a sender that replaces its secret sends two. */
const signaturesAtMost = 10;

export interface SignedMessage { id: string; timestamp: string; signatures: string; body: Buffer }

/** Under one of the keys, each of which is tried on every signature whatever the others gave. */
export function signedBy(keys: readonly Buffer[], { id, timestamp, signatures, body }: SignedMessage): boolean {
  const given = signatures.split(' ', signaturesAtMost).flatMap((text) => (text.startsWith('v1,') ? [Buffer.from(text.slice(3), 'base64')] : []));
  let holds = false;
  for (const key of keys) {
    const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
    for (const signature of given) {
      if (signature.length === expected.length && timingSafeEqual(signature, expected)) holds = true;
    }
  }
  return holds;
}

/** Whole seconds, as they were signed. */
export function withinTolerance(timestamp: string, nowMs: number, toleranceMs: number): boolean {
  return /^\d{1,12}$/.test(timestamp) && Math.abs(nowMs - Number(timestamp) * 1000) <= toleranceMs;
}
