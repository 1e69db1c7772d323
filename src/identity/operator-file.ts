/** A YAML file of the operator's that decides who somebody is: read strictly, and refused whole. */
import { readFileSync } from 'node:fs';
import type { Static, TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { parseDocument } from 'yaml';

/** @param setting that names the file. @throws Error with what is wrong, in words for the operator */
export function readOperatorFile<T extends TSchema>(file: string, schema: T, { setting, what, page }: { setting: string; what: string; page: string }): Static<T> {
  let written: string;
  try {
    written = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`\`${setting}\` cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`);
  }
  const content = parsed(written);
  if (Value.Check(schema, content)) return content;
  const problems = content === null ? ['  it is not a YAML mapping without aliases and double names'] : [...Value.Errors(schema, content)].slice(0, 10).map(({ path, message }) => `  ${path || '/'}: ${message}`);
  throw new Error(`${file} is not a list of ${what}:\n${problems.join('\n')}\n  see ${page}`);
}

function parsed(written: string): unknown {
  try {
    const document = parseDocument(written, { prettyErrors: false, uniqueKeys: true, stringKeys: true });
    return document.errors.length + document.warnings.length > 0 ? null : document.toJS({ maxAliasCount: 0 });
  } catch {
    return null;
  }
}
