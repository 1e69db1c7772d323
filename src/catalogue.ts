/**
 * The contracts being served, and earlier ones that open operations began under.
 *
 * A changed folder is compiled aside and swapped whole; an invalid set never replaces a valid one, and says so where operators look.
 */
import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { compileSource } from './contract/compile.js';
import type { Catalogue } from './contract/plan.js';
import type { Served } from './gate/served.js';
import { LedgerUnavailable } from './errors.js';
import { compileServed, type ServedOptions, type ShadowStatus } from './served.js';

export interface CatalogueStore {
  /** @param contracts digests of its tools */
  saveCatalogue(digest: string, source: string, contracts: readonly string[]): Promise<void>;
  catalogueSource(digest: string): Promise<string | null>;
}

export interface CatalogueStatus {
  digest: string;
  loaded_at: string;
  tools: { name: string; service: string; version: string; digest: string; effect: string }[];
  /** The newest set when it was refused, with every diagnostic; null while the folder and what is served are the same. */
  refused: { at: string; problem: string } | null;
  /** Policies that are asked beside those that decide; null: none are configured. */
  shadow: ShadowStatus | null;
}

export interface ServedContracts {
  served(): Served;
  /** Resolves once the ledger has the set that was read at the start, which is tried again with each call. Nothing may begin before: no other replica could go on with it. @throws LedgerUnavailable */
  kept(): Promise<void>;
  /** Null: the ledger does not have it, or it does not compile any more. */
  earlier(digest: string): Promise<Catalogue | null>;
  status(): CatalogueStatus;
  stop(): void;
}

export interface CatalogueOptions extends ServedOptions {
  store: CatalogueStore;
  /** 0: the folders are read at the start only. */
  reloadMs: number;
  reloaded(outcome: 'swapped' | 'refused', detail: string): void;
  /** The ledger was away at the start. */
  unkept(error: LedgerUnavailable): void;
}

/** Sets held besides the one that is served: each may be tens of megabytes, and any comes back from the ledger in milliseconds. */
const maxEarlier = 4;

/** @throws Error with all diagnostics when the folder does not compile at the start: a gateway never starts on half a contract. */
export async function serveCatalogue(options: CatalogueOptions): Promise<ServedContracts> {
  const { folder, env, defaults, shadow, store, reloadMs, reloaded } = options;
  const folders = [folder, ...(shadow ? [shadow.folder] : [])];
  let seen = fingerprint(folders);
  let current = compileServed(options);
  const first = current.served.catalogue;
  let loadedAt = new Date();
  let refused: CatalogueStatus['refused'] = null;
  const save = ({ digest, source, tools }: Catalogue): Promise<void> => store.saveCatalogue(digest, source, [...tools.values()].map((tool) => tool.digest));
  const kept = once(() => save(first));
  await kept().catch((error: unknown) => {
    if (!(error instanceof LedgerUnavailable)) throw error;
    options.unkept(error);
  });
  const earlier = new Map<string, Catalogue>();
  /** The one that was not asked for the longest goes. */
  const hold = (catalogue: Catalogue): void => {
    earlier.delete(catalogue.digest);
    earlier.set(catalogue.digest, catalogue);
    for (const digest of [...earlier.keys()].slice(0, -maxEarlier)) earlier.delete(digest);
  };

  async function stored(digest: string): Promise<Catalogue | null> {
    const source = await store.catalogueSource(digest);
    const again = source === null ? null : compileSource(source, env, defaults);
    return !again || 'diagnostics' in again ? null : again.catalogue;
  }

  /** The ledger has a set before anything can begin under it. */
  async function reload(): Promise<void> {
    const found = fingerprint(folders);
    if (found === seen) return;
    try {
      const next = compileServed(options);
      const { catalogue } = next.served;
      await save(catalogue);
      hold(current.served.catalogue);
      [current, loadedAt, refused] = [next, new Date(), null];
      reloaded('swapped', catalogue.digest);
    } catch (error) {
      refused = { at: new Date().toISOString(), problem: (error as Error).message };
      reloaded('refused', refused.problem);
    }
    seen = found;
  }

  let timer: NodeJS.Timeout | undefined;
  const watch = (): void => {
    timer = setTimeout(() => void reload().catch((error: unknown) => reloaded('refused', String(error))).finally(watch), reloadMs);
    timer.unref();
  };
  if (reloadMs > 0) watch();

  return {
    served: () => current.served,
    kept,
    async earlier(digest) {
      const { catalogue } = current.served;
      if (digest === catalogue.digest) return catalogue;
      const found = earlier.get(digest) ?? (await stored(digest));
      if (found) hold(found);
      return found;
    },
    status: () => ({
      digest: current.served.catalogue.digest, loaded_at: loadedAt.toISOString(), refused, shadow: current.shadow,
      tools: [...current.served.catalogue.tools.values()].map(({ name, service, version, digest, effect }) => ({ name, service, version, digest, effect })),
    }),
    stop: () => clearTimeout(timer),
  };
}

/** Runs until it has succeeded once; whoever asks meanwhile waits for the same run. */
function once(work: () => Promise<void>): () => Promise<void> {
  let run: Promise<void> | null = null;
  return () => {
    run ??= work().catch((error: unknown) => {
      run = null;
      throw error;
    });
    return run;
  };
}

/** Names, sizes and times of the folders' files: cheap to ask often. A folder that cannot be read is told by who reads it. */
function fingerprint(folders: readonly string[]): string {
  const hash = createHash('sha256');
  for (const folder of folders) {
    try {
      for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
        const { size, mtimeMs } = statSync(join(folder, name));
        hash.update(`${name}\0${size}\0${mtimeMs}\0`);
      }
    } catch (error) {
      hash.update(String(error));
    }
  }
  return hash.digest('hex');
}
