/** The contracts being served, and earlier ones that open operations began under. */
import { compileFolder, compileSource } from './contract/compile.js';
import type { ContractDefaults } from './contract/defaults.js';
import { formatDiagnostics } from './contract/diagnostics.js';
import { readSourceText } from './contract/load.js';
import type { Catalogue } from './contract/plan.js';
import { loadPolicies } from './policy/cedar.js';
import type { PolicyEngine } from './policy/decision.js';

export interface CatalogueStore {
  saveCatalogue(digest: string, source: string): Promise<void>;
  catalogueSource(digest: string): Promise<string | null>;
}

export interface ServedContracts {
  served(): { catalogue: Catalogue; policy: PolicyEngine };
  /** Null: the ledger does not have it, or it does not compile any more. */
  earlier(digest: string): Promise<Catalogue | null>;
}

/** @throws Error with all diagnostics when the folder does not compile: a gateway never starts on half a contract. */
export async function serveCatalogue(options: { folder: string; env: NodeJS.ProcessEnv; defaults: ContractDefaults; store: CatalogueStore }): Promise<ServedContracts> {
  const { folder, env, defaults, store } = options;
  const compiled = compileFolder(folder, env, defaults);
  if ('diagnostics' in compiled) throw new Error(`the contracts in ${folder} do not compile:\n${formatDiagnostics(compiled.diagnostics, (file) => readSourceText(folder, file))}`);
  const { catalogue } = compiled;
  const loaded = loadPolicies(catalogue.policies);
  if ('problems' in loaded) {
    const lines = loaded.problems.map(({ file, line, column, message }) => `${file}:${line ?? 1}:${column ?? 1} ${message}`);
    throw new Error(`the policies in ${folder} cannot be read:\n${lines.join('\n')}`);
  }
  await store.saveCatalogue(catalogue.digest, catalogue.source);
  const current = { catalogue, policy: loaded.engine };
  const known = new Map<string, Catalogue>([[catalogue.digest, catalogue]]);
  return {
    served: () => current,
    async earlier(digest) {
      const at = known.get(digest);
      if (at) return at;
      const source = await store.catalogueSource(digest);
      const again = source === null ? null : compileSource(source, env, defaults);
      if (!again || 'diagnostics' in again) return null;
      known.set(digest, again.catalogue);
      return again.catalogue;
    },
  };
}
