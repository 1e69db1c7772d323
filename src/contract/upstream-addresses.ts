/** Addresses that the operator does not let be called: told when contracts are checked or served, and not at the first call. */
import { diagnostic, type Diagnostic } from './diagnostics.js';
import type { ContractDocument } from './document.js';
import type { Catalogue } from './plan.js';
import { readCanonicalSource } from './source.js';

/** @param problem what stands against an origin for a service, in words; null when nothing does */
export function addressProblems(catalogue: Catalogue, problem: (service: string, origin: string) => string | null): Diagnostic[] {
  const origins = new Map([...catalogue.tools.values()].map(({ service, upstream }) => [service, upstream.origin]));
  const { files } = readCanonicalSource(catalogue.source);
  return [...origins].flatMap(([service, origin]) => {
    const against = problem(service, origin);
    const file = files.find(({ document }) => (document as unknown as ContractDocument).service === service)?.file ?? '.';
    return against === null ? [] : [diagnostic(file, { line: 1, column: 1 }, 'CG621', against)];
  });
}
