/** The text of an OpenAPI document to JSON, in bounded time, with the place of what is wrong. */
import { isScalar, LineCounter, parseDocument, visit, type Document } from 'yaml';
import type { Json, JsonObject } from '../../../model.js';
import { parseStrict } from '../../../strict-json.js';
import { isSchemaObject } from '../../schema-subset.js';

/** Line and column count from 1. */
export interface ReadProblem {
  line: number;
  column: number;
  message: string;
}

export type ReadResult = { document: JsonObject } | { problems: ReadProblem[] };

/** Of characters; the largest published documents have about 12 million. */
const maxLength = 32_000_000;
/** YAML is parsed at about a megabyte a second, so a large document has to come as JSON. */
const maxYamlLength = 6_000_000;
/** Aliases resolve to at most this many nodes in all. */
const maxAliasCount = 10_000;
const maxProblems = 20;

export function readDocument(text: string): ReadResult {
  const json = /^\s*\{/.test(text);
  const most = json ? maxLength : maxYamlLength;
  if (text.length > most) return failed(`the document has ${text.length} characters, and ${most} are the most in ${json ? 'JSON' : 'YAML; convert it to JSON'}`);
  const read = json ? readJson(text) : readYaml(text);
  return 'problems' in read ? read : openapi(read.value);
}

function failed(message: string, line = 1, column = 1): { problems: ReadProblem[] } {
  return { problems: [{ line, column, message }] };
}

/** Only what this importer understands. */
function openapi(value: Json): ReadResult {
  if (!isSchemaObject(value)) return failed('an OpenAPI document is an object, and this is not');
  if (value['swagger'] !== undefined) return failed('this is Swagger 2, and OpenAPI 3 is needed; convert the document first');
  const version = String(value['openapi']);
  if (value['openapi'] === undefined) return failed('this is no OpenAPI document: it has no member `openapi`');
  if (!/^3(\.|$)/.test(version)) return failed(`OpenAPI 3 is needed, and this is \`${version.slice(0, 20)}\``);
  if (!isSchemaObject(value['paths'])) return failed('the document has no `paths`, so there is nothing to import');
  return { document: value };
}

function readJson(text: string): { value: Json } | { problems: ReadProblem[] } {
  try {
    return { value: JSON.parse(text) as Json };
  } catch {
    const strict = parseStrict(text, { maxDepth: 512 });
    if (strict.ok) return { value: strict.value };
    const before = text.slice(0, strict.position).split('\n');
    return failed(strict.message, before.length, (before.at(-1) ?? '').length + 1);
  }
}

function readYaml(text: string): { value: Json } | { problems: ReadProblem[] } {
  const lines = new LineCounter();
  try {
    // The parser compares each key with every other; `duplicates` looks each up.
    const document = parseDocument(text, { lineCounter: lines, uniqueKeys: false, merge: true, version: '1.2', logLevel: 'silent' });
    const found = [...document.errors.map(({ pos, message }) => ({ at: pos[0], message: firstLine(message) })), ...duplicates(document)];
    if (found.length === 0) return { value: (document.toJS({ maxAliasCount }) ?? null) as Json };
    return {
      problems: found.slice(0, maxProblems).map(({ at, message }) => {
        const { line, col } = lines.linePos(at);
        return { line: Math.max(1, line), column: Math.max(1, col), message };
      }),
    };
  } catch (thrown) {
    return failed(thrown instanceof RangeError ? 'the document is nested too deeply' : `the document cannot be read: ${firstLine((thrown as Error).message)}`);
  }
}

function firstLine(message: string): string {
  return (/call stack/.test(message) ? 'this is nested too deeply' : (message.split('\n')[0] ?? '')).replace(/ at line \d+, column \d+:?$/, '').slice(0, 300);
}

function duplicates(document: Document): { at: number; message: string }[] {
  const found: { at: number; message: string }[] = [];
  visit(document, {
    Map(_, map) {
      const names = new Set<string>();
      for (const { key } of map.items) {
        if (!isScalar(key) || key.value === '<<') continue;
        const name = String(key.value);
        if (names.has(name)) found.push({ at: key.range?.[0] ?? 0, message: `the member \`${name.slice(0, 100)}\` is written twice` });
        names.add(name);
      }
    },
    Alias(_, alias) {
      if (!alias.resolve(document)) found.push({ at: alias.range?.[0] ?? 0, message: `the alias \`*${alias.source}\` stands for nothing` });
    },
  });
  return found;
}
