/** File, environment and defaults to one checked configuration; every problem at once, never only the first. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Value } from '@sinclair/typebox/value';
import { type Environment, readEnvironment } from './environment.js';
import { type Given, readConfigFile } from './file.js';
import { measure } from './kinds.js';
import type { ConfigProblem } from './problem.js';
import { settings } from './registry.js';
import { productionProblems, relationProblems, type SourceOf } from './rules.js';
import { readSecretFile } from './secrets.js';
import { type Config, nameInCode } from './settings.js';

export interface LoadOptions {
  /** The file; else CALLGATE_CONFIG; else `callgate.yaml` in the working folder, if it is there. */
  file?: string;
  env: Environment;
  /** True: production, whatever the settings say. */
  production?: boolean;
  /** The working folder. */
  folder?: string;
}

interface Read { value: unknown; source: string }

/** The environment wins over the file, and the file over the defaults. */
export function loadConfig({ file, env, production, folder = process.cwd() }: LoadOptions): { config: Config } | { problems: ConfigProblem[] } {
  const fromFile = readFile(file ?? (env.CALLGATE_CONFIG || undefined), folder);
  const fromEnvironment = readEnvironment(env, folder);
  const problems = [...fromFile.problems, ...fromEnvironment.problems];

  const values = new Map<string, Read>();
  for (const given of [...defaults(env, folder), ...fromFile.given, ...fromEnvironment.given]) {
    const read = interpret(given);
    const { path } = given.setting;
    if ('problem' in read) problems.push(read.problem);
    values.set(path, { value: 'problem' in read ? values.get(path)?.value : read.value, source: given.source });
  }
  problems.push(...takeSecretsFromFiles(values));
  if (production) values.set('mode', { value: 'production', source: 'the command line' });

  const config = assemble(values);
  const sourceOf: SourceOf = (path) => values.get(path)?.source ?? path;
  const broken = relationProblems(config, sourceOf);
  if (config.mode === 'production') broken.push(...productionProblems(config, sourceOf));
  // of a value that is refused already, a rule has nothing to add
  const refused = new Set(problems.map(({ source }) => source));
  problems.push(...broken.filter(({ source }) => !refused.has(source)));
  return problems.length > 0 ? { problems } : { config };
}

function readFile(named: string | undefined, folder: string): { given: Given[]; problems: ConfigProblem[] } {
  const name = named ?? 'callgate.yaml';
  const file = resolve(folder, name);
  return named === undefined && !existsSync(file) ? { given: [], problems: [] } : readConfigFile(file, name);
}

function defaults(env: Environment, folder: string): Given[] {
  return settings.map((setting) => {
    const raw: unknown = setting.path === 'mode' && env.NODE_ENV === 'production' ? 'production' : setting.schema.default;
    return { setting, raw, source: `${setting.variables.at(-1)} (not set)`, folder };
  });
}

function interpret({ setting, raw, source, folder }: Given): { value: unknown } | { problem: ConfigProblem } {
  const { kind, expected, secret, range } = setting.meaning;
  const measured = range && typeof raw === 'string' ? measure(kind === 'size' ? 'size' : 'duration', raw) : null;
  const inRange = !range || (measured !== null && measured >= range.min && measured <= range.max);
  if (!Value.Check(setting.schema, raw) || !inRange) {
    const mend = `set ${setting.variables.at(-1)} or \`${setting.path}\` to ${expected}, or leave it out`;
    const shown = secret || typeof raw === 'object' ? null : JSON.stringify(raw) ?? null;
    return { problem: { source, value: shown, message: `\`${setting.path}\` must be ${expected}`, mend } };
  }
  if (measured !== null) return { value: measured };
  return { value: kind === 'path' && typeof raw === 'string' ? resolve(folder, raw) : raw };
}

function takeSecretsFromFiles(values: Map<string, Read>): ConfigProblem[] {
  return ['secrets.key_pepper', 'secrets.seal_key', 'secrets.signing_keys'].flatMap((path): ConfigProblem[] => {
    const file = values.get(`${path}_file`);
    if (typeof file?.value !== 'string') return [];
    if (values.get(path)?.value !== null) {
      return [{ source: file.source, value: null, message: `both \`${path}\` and \`${path}_file\` are set`, mend: 'set one of them' }];
    }
    const read = readSecretFile(file.value, file.source);
    values.set(path, { value: 'problem' in read ? null : read.value, source: file.source });
    return 'problem' in read ? [read.problem] : [];
  });
}

function assemble(values: ReadonlyMap<string, Read>): Config {
  const config: Record<string, unknown> = {};
  for (const { path, section, key, meaning } of settings) {
    const value = values.get(path)?.value;
    if (section === null) config[key] = value;
    else config[section] = { ...(config[section] as object | undefined), [nameInCode(key, meaning.kind)]: value };
  }
  return config as Config;
}
