/** Questions that an importer left open: texts in place of a value, which nobody must take for one. */
import type { Json } from '../model.js';
import type { Path } from './pointer.js';

export function gap(question: string): string {
  return `GAP: ${question}`;
}

export function isGap(text: string): boolean {
  return /^GAP(:|$)/.test(text);
}

/** Every open question of a document, in its order. */
export function gapsIn(value: Json, path: Path = []): { path: Path; question: string }[] {
  if (typeof value === 'string') {
    const question = /^GAP(?::\s*([\s\S]*))?$/.exec(value);
    return question ? [{ path, question: question[1] || 'an answer' }] : [];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => gapsIn(member, [...path, name]));
}
