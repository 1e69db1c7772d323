import { expect, it } from 'vitest';
import { randomByte, randomPiece } from '../../src/random.js';

it('every piece is another one, of the length that was asked for, over many pages, and stays as it was', () => {
  const pieces = Array.from({ length: 3_000 }, (_, n) => randomPiece(n % 2 === 0 ? 12 : 16));
  const texts = pieces.map((piece) => piece.toString('hex'));
  const bytes = new Set(Array.from({ length: 20_000 }, randomByte));
  expect(pieces.every(({ length }, n) => length === (n % 2 === 0 ? 12 : 16))).toBe(true);
  expect(new Set(texts).size).toBe(3_000);
  expect(pieces.map((piece) => piece.toString('hex'))).toEqual(texts);
  expect(bytes.size).toBe(256);
});
