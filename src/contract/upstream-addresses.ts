/** Addresses that the operator does not let be called: told when contracts are checked or served, and not at the first call. */
import { diagnostic, type Diagnostic } from './diagnostics.js';
import type { ContractDocument } from './document.js';
import { loadFolder } from './load.js';
import type { Catalogue } from './plan.js';

/**
 * @param folder that the catalogue was compiled from, looked into again for the places
 * @param problem what stands against an origin for a service, in words; null when nothing does
 */
export function addressProblems(folder: string, catalogue: Catalogue, problem: (service: string, origin: string) => string | null): Diagnostic[] {
  const origins = new Map([...catalogue.tools.values()].map(({ service, upstream }) => [service, upstream.origin]));
  const barred = [...origins].flatMap(([service, origin]) => {
    const against = problem(service, origin);
    return against === null ? [] : [{ service, against }];
  });
  if (barred.length === 0) return [];
  const { files } = loadFolder(folder).source;
  return barred.map(({ service, against }) => {
    const file = files.find(({ document }) => (document as unknown as ContractDocument).service === service);
    return diagnostic(file?.file ?? '.', file?.valuePosition(['upstream', 'base_url']) ?? { line: 1, column: 1 }, 'CG621', against);
  });
}
