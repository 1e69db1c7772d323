/**
 * Sealing of what recovery needs and of stored answers: AES-256-GCM under a key from configuration, bound to its place by
 * the additional data, so that a sealed value moved to another row or tenant does not open. The first byte says how it is stored.
 *
 * What is packed first tells by its length how alike its parts are, so who may both choose a part and look at lengths in the database could try
 * out another part (CRIME). Every value is packed alone, with a vocabulary that is code, and all of it is of one caller's own call about a
 * resource that policy let it use; nothing of two tenants or subjects, and no credential, is ever in one. What is left to learn
 * are members of what was observed for it which this caller is not shown, by whoever also reads the database, at one call for a guess. An event
 * that a service sends is not packed: it is written by one and about another.
 */
import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { randomPiece } from '../random.js';
import { deflate, indexed, longestText } from './deflate.js';
import { vocabulary } from './vocabulary.js';

const plain = 1;
const packed = 2;
const ivBytes = 12;
const tagBytes = 16;

/** Whoever unpacks needs the window and the vocabulary. */
const window = { windowBits: 12, dictionary: vocabulary };
const known = indexed(vocabulary);
/** The lowest level: what a caller may make long is bounded in time. */
const ofLong = { ...window, level: 1, memLevel: 5 };

export interface Sealer {
  seal(text: string, place: string): Buffer;
  /** As `seal`, in the shorter of its two forms. */
  pack(text: string, place: string): Buffer;
  /** @throws Error when the key is another one or the value was changed or moved. */
  open(sealed: Buffer, place: string): string;
}

/** @param packs false while replicas run that know only what is sealed as it is */
export function createSealer(secret: string, packs = true): Sealer {
  const key = createHash('sha256').update('callgate/seal/1').update(secret).digest();

  function sealed(form: number, content: Buffer, place: string): Buffer {
    const iv = randomPiece(ivBytes);
    const cipher = createCipheriv('aes-256-gcm', key, iv);
    cipher.setAAD(boundTo(form, place));
    const body = Buffer.concat([cipher.update(content), cipher.final()]);
    return Buffer.concat([Buffer.of(form), iv, cipher.getAuthTag(), body]);
  }

  return {
    seal: (text, place) => sealed(plain, Buffer.from(text), place),
    pack(text, place) {
      const short = packs ? shortened(text) : null;
      return short && short.length < Buffer.byteLength(text) ? sealed(packed, short, place) : sealed(plain, Buffer.from(text), place);
    },
    open(value, place) {
      const form = value[0];
      if (form !== plain && form !== packed) throw new Error('this sealed value was written by another version of Callgate');
      const iv = value.subarray(1, 1 + ivBytes);
      const tag = value.subarray(1 + ivBytes, 1 + ivBytes + tagBytes);
      const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: tagBytes }); // or a shorter, guessable tag would do
      decipher.setAAD(boundTo(form, place));
      decipher.setAuthTag(tag);
      const content = Buffer.concat([decipher.update(value.subarray(1 + ivBytes + tagBytes)), decipher.final()]);
      return (form === packed ? inflateRawSync(content, window) : content).toString();
    },
  };
}

function shortened(text: string): Buffer {
  return text.length > longestText ? deflateRawSync(text, ofLong) : deflate(text, '', known);
}

/** The form too, from the second one on: a value that is opened as what it is not would be nonsense in the place of an error. */
function boundTo(form: number, place: string): Buffer {
  return Buffer.from(form === plain ? place : `${form}/${place}`);
}
