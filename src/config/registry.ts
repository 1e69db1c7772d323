/** The settings as a list, each under its path in the file and its names in the environment. */
import type { TObject, TSchema } from '@sinclair/typebox';
import { type Meaning, meaningOf } from './kinds.js';
import { commonNames, configSchema } from './settings.js';

export interface Setting {
  /** `limits.body`, or `mode`. */
  path: string;
  /** Null for `mode`, which stands at the top. */
  section: string | null;
  key: string;
  schema: TSchema;
  meaning: Meaning;
  /** Names in the environment; an earlier one wins. */
  variables: string[];
}

export function isSection(schema: TSchema): schema is TObject {
  return schema.type === 'object';
}

export const settings: readonly Setting[] = Object.entries<TSchema>(configSchema.properties).flatMap(([name, schema]) =>
  isSection(schema)
    ? Object.entries(schema.properties).map(([key, inner]) => setting(name, key, inner))
    : [setting(null, name, schema)]);

function setting(section: string | null, key: string, schema: TSchema): Setting {
  const path = section === null ? key : `${section}.${key}`;
  const common = Object.keys(commonNames).filter((name) => commonNames[name] === path);
  return { path, section, key, schema, meaning: meaningOf(schema), variables: [`CALLGATE_${path.replace('.', '_').toUpperCase()}`, ...common] };
}
