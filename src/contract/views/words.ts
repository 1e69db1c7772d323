/** What a model is told in words where its provider's schema has no keyword for it. */
import type { Json } from '../../model.js';

const sentences: Readonly<Record<string, (value: Json) => string>> = {
  minLength: (value) => `At least ${one(value, 'character')}.`,
  maxLength: (value) => `At most ${one(value, 'character')}.`,
  pattern: (value) => `Matches ${String(value)}.`,
  format: (value) => `Written as ${String(value)}.`,
  minimum: (value) => `At least ${String(value)}.`,
  maximum: (value) => `At most ${String(value)}.`,
  exclusiveMinimum: (value) => `More than ${String(value)}.`,
  exclusiveMaximum: (value) => `Less than ${String(value)}.`,
  multipleOf: (value) => `A multiple of ${String(value)}.`,
  minItems: (value) => `At least ${one(value, 'item')}.`,
  maxItems: (value) => `At most ${one(value, 'item')}.`,
  uniqueItems: (value) => (value === true ? 'No item twice.' : ''),
  minProperties: (value) => `At least ${one(value, 'member')}.`,
  maxProperties: (value) => `At most ${one(value, 'member')}.`,
  const: (value) => `Always ${JSON.stringify(value)}.`,
  enum: (value) => `One of ${(value as Json[]).map((each) => JSON.stringify(each)).join(', ')}.`,
};

/** Empty where no short sentence says it. */
export function inWords(keyword: string, value: Json): string {
  const text = sentences[keyword]?.(value) ?? '';
  return text.length <= 300 ? text : '';
}

function one(value: Json, unit: string): string {
  return `${String(value)} ${unit}${value === 1 ? '' : 's'}`;
}
