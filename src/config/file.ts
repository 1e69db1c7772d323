/** `callgate.yaml`: strict YAML, every name known, every value with its place. */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { isMap, isScalar, LineCounter, type Pair, parseDocument, type YAMLMap } from 'yaml';
import { nearest } from '../contract/nearest.js';
import type { ConfigProblem } from './problem.js';
import { isSection, type Setting, settings } from './registry.js';
import { configSchema } from './settings.js';

/** A value that somebody wrote for a setting, not yet checked. */
export interface Given {
  setting: Setting;
  raw: unknown;
  source: string;
  /** What a relative path is relative to. */
  folder: string;
}

interface FileContent { given: Given[]; problems: ConfigProblem[] }
type PlaceOf = (node: unknown) => string;

/** @param name what problems call the file */
export function readConfigFile(file: string, name: string): FileContent {
  let content: string;
  try {
    content = readFileSync(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    return { given: [], problems: [{ source: name, value: null, message: `the file cannot be read: ${reason}`, mend: 'name a readable file by `--config` or CALLGATE_CONFIG' }] };
  }
  return parseConfigFile(name, content, dirname(file));
}

function parseConfigFile(name: string, content: string, folder: string): FileContent {
  const lines = new LineCounter();
  const document = parseDocument(content, { lineCounter: lines, prettyErrors: false, uniqueKeys: true, stringKeys: true });
  const place = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${name}:${line}:${col}`;
  };
  // warnings too: an unknown tag would silently become text
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0) {
    // what follows a colon in a message quotes the text, which may be a secret that was not put in quotes
    const problems = faults.map(({ message, pos }) => problem(place(pos[0]), message.split(/: |%/)[0] ?? '', 'correct the YAML at this place; text with special characters goes in quotes'));
    return { given: [], problems };
  }
  if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) return { given: [], problems: [] };
  if (!isMap(document.contents)) return { given: [], problems: [problem(place(0), 'the file is not a mapping of sections', 'start with a section such as `limits:`')] };
  const placeOf: PlaceOf = (node) => place((node as { range?: [number] } | null)?.range?.[0] ?? 0);
  return readSections(document.contents, placeOf, folder);
}

function readSections(top: YAMLMap, placeOf: PlaceOf, folder: string): FileContent {
  const found: FileContent = { given: [], problems: [] };
  for (const pair of top.items) {
    const name = nameOf(pair);
    const schema = configSchema.properties[name as keyof typeof configSchema.properties];
    if (schema === undefined) found.problems.push(unknownName(placeOf(pair.key), name, Object.keys(configSchema.properties)));
    else if (!isSection(schema)) found.given.push(givenBy(pair, name, placeOf, folder));
    else if (isMap(pair.value)) readSection(name, Object.keys(schema.properties), pair.value, placeOf, folder, found);
    else if (!isScalar(pair.value) || pair.value.value !== null) {
      found.problems.push(problem(placeOf(pair.value), `\`${name}\` is not a mapping of settings`, `indent its settings under \`${name}:\``));
    }
  }
  return found;
}

function readSection(section: string, known: string[], content: YAMLMap, placeOf: PlaceOf, folder: string, found: FileContent): void {
  for (const pair of content.items) {
    const key = nameOf(pair);
    if (known.includes(key)) found.given.push(givenBy(pair, `${section}.${key}`, placeOf, folder));
    else found.problems.push(unknownName(placeOf(pair.key), `${section}.${key}`, settings.map(({ path }) => path)));
  }
}

function givenBy(pair: Pair, path: string, placeOf: PlaceOf, folder: string): Given {
  const setting = settings.find((known) => known.path === path);
  if (!setting) throw new Error(`the list of settings lacks ${path}`);
  // a list or mapping where a value belongs is wrong whatever it holds
  const raw = isScalar(pair.value) ? pair.value.value : pair.value === null ? null : {};
  return { setting, raw, source: placeOf(pair.value ?? pair.key), folder };
}

function nameOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : '';
}

function unknownName(source: string, name: string, known: string[]): ConfigProblem {
  const close = nearest(name, known);
  return problem(source, `there is no setting \`${name}\``, close ? `did you mean \`${close}\`?` : 'see docs/configuration.md for what there is');
}

function problem(source: string, message: string, mend: string): ConfigProblem {
  return { source, value: null, message, mend };
}
