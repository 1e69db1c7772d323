/** Options of a subcommand, read strictly: a misspelt one is told, never ignored. */
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { readViewLimits, type ViewLimits } from '../contract/views/limits.js';
import { type Config, describeProblems, loadConfig } from '../config/index.js';

export class UsageError extends Error {}

export function readArgs<T extends NonNullable<ParseArgsConfig['options']>>(args: string[], options: T, positionals = 0) {
  try {
    const read = parseArgs({ args, options, allowPositionals: true, strict: true });
    if (read.positionals.length > positionals) throw new Error(`unexpected \`${read.positionals[positionals] ?? ''}\``);
    return read;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}; see \`callgate help\``);
  }
}

/** Of `--limit`, which may be said several times. */
export const limitOption = { type: 'string', multiple: true } as const;

export function readLimits(given: readonly string[] = []): ViewLimits {
  try {
    return readViewLimits(given);
  } catch (error) {
    throw new UsageError(`--limit: ${(error as Error).message}`);
  }
}

/** @throws Error with every problem of the configuration at once. */
export function readConfig(file: string | undefined, env: NodeJS.ProcessEnv = process.env): Config {
  const loaded = loadConfig({ env, ...(file === undefined ? {} : { file }) });
  if ('problems' in loaded) throw new Error(`the configuration is not usable:\n${describeProblems(loaded.problems)}`);
  return loaded.config;
}

/** Resolves at the first of Ctrl-C and SIGTERM; a second one ends the process at once. */
export function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(130));
        resolve();
      });
    }
  });
}
