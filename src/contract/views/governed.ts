/** The source of a catalogue as it was written: what views say in the owner's words, where a plan has functions. */
import type { ContractDocument, ToolSource } from '../document.js';
import type { Catalogue, ToolPlan } from '../plan.js';
import { readCanonicalSource } from '../source.js';

export interface GovernedTool {
  readonly plan: ToolPlan;
  readonly source: ToolSource;
  readonly document: ContractDocument;
}

/** In the order of the catalogue. */
export function governedTools(catalogue: Catalogue): GovernedTool[] {
  const documents = readCanonicalSource(catalogue.source).files.map(({ document }) => document as unknown as ContractDocument);
  return [...catalogue.tools].flatMap(([name, plan]) => {
    const document = documents.find(({ tools }) => Object.hasOwn(tools, name));
    return document ? [{ plan, document, source: document.tools[name]! }] : [];
  });
}

export type Settlement = 'read_back' | 'send_again_under_the_same_key' | 'review';

/** What settles an outcome that nobody saw (semantics.md section 4). */
export function settlement({ readback, idempotency }: ToolPlan): Settlement {
  if (readback) return 'read_back';
  return idempotency ? 'send_again_under_the_same_key' : 'review';
}
