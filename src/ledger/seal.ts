/**
 * Sealing of what recovery needs and of stored answers: AES-256-GCM under a key from configuration, bound to its place by
 * the additional data, so that a sealed value moved to another row or tenant does not open.
 */
import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';
import { randomPiece } from '../random.js';

const version = 1;
const ivBytes = 12;
const tagBytes = 16;

export interface Sealer {
  seal(text: string, place: string): Buffer;
  /** @throws Error when the key is another one or the value was changed or moved. */
  open(sealed: Buffer, place: string): string;
}

export function createSealer(secret: string): Sealer {
  const key = createHash('sha256').update('callgate/seal/1').update(secret).digest();
  return {
    seal(text, place) {
      const iv = randomPiece(ivBytes);
      const cipher = createCipheriv('aes-256-gcm', key, iv);
      cipher.setAAD(Buffer.from(place));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([Buffer.of(version), iv, cipher.getAuthTag(), body]);
    },
    open(sealed, place) {
      if (sealed[0] !== version) throw new Error('this sealed value was written by another version of Callgate');
      const iv = sealed.subarray(1, 1 + ivBytes);
      const tag = sealed.subarray(1 + ivBytes, 1 + ivBytes + tagBytes);
      const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: tagBytes }); // or a shorter, guessable tag would do
      decipher.setAAD(Buffer.from(place));
      decipher.setAuthTag(tag);
      return decipher.update(sealed.subarray(1 + ivBytes + tagBytes), undefined, 'utf8') + decipher.final('utf8');
    },
  };
}
