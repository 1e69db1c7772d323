/** Text that no record of a call could keep (NUL, lone surrogates) is refused before anything is sent. */
import { refuse, type Refusal } from '../errors.js';
import type { JsonObject } from '../model.js';
import { findUnstorable } from '../strict-json.js';

export function unstorableText(args: JsonObject): Refusal | undefined {
  const found = findUnstorable(args);
  if (found === null) return undefined;
  const pointer = found.replaceAll('\0', '\u2400').toWellFormed(); // the character may be in a name, and the receipt keeps the pointer
  return refuse('UNSTORABLE_TEXT', `The text at \`${pointer}\` has NUL or a lone surrogate.`, {
    errors: [{ pointer, code: 'unstorable_text', message: 'Remove the character.' }],
  });
}
