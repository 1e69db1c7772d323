/** The example with a tool whose lost answers nothing but its key, or nothing at all, can settle. */
import type { Catalogue } from '../../../src/contract/plan.js';
import { compileFolder } from '../../../src/contract/compile.js';
import { catalogueOf, folderWith, retailText } from '../fixture.js';

const voidCredit = /(\n {2}void_credit:\n[\s\S]*?)(\n {4}idempotency: .*)([\s\S]*?)\n {4}readback:\n(?: {6}.*\n)+/;

export function voidCreditWithoutReadback(keyed: boolean): Catalogue {
  const text = retailText.replace(voidCredit, (_, start: string, key: string, middle: string) => `${start}${keyed ? key : '\n    on_unknown: review'}${middle}\n`);
  if (text === retailText) throw new Error('the example no longer has a read-back there');
  return catalogueOf(compileFolder(folderWith(text).dir, {}));
}
