/** One contract file: YAML 1.2 (JSON is a part of it) to JSON, strictly, keeping where everything stands. */
import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type Node,
  type Pair,
  type YAMLError,
} from 'yaml';
import type { Json } from '../model.js';
import { diagnostic, type Diagnostic, type DiagnosticCode, type Position } from './diagnostics.js';
import type { Path } from './pointer.js';
import type { SourceFile } from './source.js';

/** Aliases resolve to at most this many nodes in all: enough to share a schema, too few for a bomb. */
const maxAliasCount = 100;

export function parseContractFile(file: string, text: string): { source: SourceFile } | { diagnostics: Diagnostic[] } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, version: '1.2', merge: false, stringKeys: true });
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const found = [...document.errors, ...document.warnings].map((error) => syntaxDiagnostic(file, error, at));
  found.push(...unfitNodes(file, document, at));
  if (found.length > 0) return { diagnostics: found };
  try {
    const json = (document.toJS({ maxAliasCount }) ?? null) as Json;
    return { source: { file, document: json, ...locator(document, at) } };
  } catch (thrown) {
    return {
      diagnostics: [diagnostic(file, { line: 1, column: 1 }, 'CG003', `the document cannot be resolved: ${(thrown as Error).message}`)],
    };
  }
}

function syntaxDiagnostic(file: string, error: YAMLError, at: (offset: number) => Position): Diagnostic {
  const code: DiagnosticCode = error.code === 'DUPLICATE_KEY' ? 'CG002' : error.code === 'BAD_ALIAS' ? 'CG003' : 'CG001';
  return diagnostic(file, at(error.pos[0]), code, (error.message.split('\n')[0] ?? '').replace(/ at line \d+, column \d+:?$/, ''));
}

function unfitNodes(file: string, document: Document, at: (offset: number) => Position): Diagnostic[] {
  const found: Diagnostic[] = [];
  visit(document, {
    Alias(_, alias) {
      if (!alias.resolve(document))
        found.push(diagnostic(file, at(alias.range?.[0] ?? 0), 'CG003', `the alias \`*${alias.source}\` stands for nothing`));
    },
    Scalar(_, { value, range, source }) {
      if (typeof value !== 'number' || (Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value))) return;
      found.push(diagnostic(file, at(range?.[0] ?? 0), 'CG003', `the number \`${source ?? value}\` cannot be carried exactly`));
    },
  });
  return found;
}

function locator(document: Document, at: (offset: number) => Position): Pick<SourceFile, 'valuePosition' | 'keyPosition'> {
  return {
    valuePosition: (path, offset = 0) => {
      const { node, value } = walk(document, path);
      return at(value + textOffset(node, offset));
    },
    keyPosition: (path) => at(walk(document, path).key),
  };
}

/** Where a character of a one-line text stands behind the beginning of its node; 0 where folding or escapes make it uncertain. */
function textOffset(node: unknown, offset: number): number {
  if (offset === 0 || !isScalar(node) || typeof node.value !== 'string' || !node.range) return 0;
  const written = node.range[1] - node.range[0];
  if (node.type === 'PLAIN' && written === node.value.length) return offset;
  const quoted = node.type === 'QUOTE_DOUBLE' || node.type === 'QUOTE_SINGLE';
  return quoted && written === node.value.length + 2 ? offset + 1 : 0;
}

/** Offsets of the deepest part of the path that exists. */
function walk(document: Document, path: Path): { key: number; value: number; node: unknown } {
  let node: unknown = document.contents;
  let offsets = { key: offsetOf(node, 0), value: offsetOf(node, 0) };
  for (const segment of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair: Pair | undefined = node.items.find(
        (item) => isPair(item) && isScalar(item.key) && String(item.key.value) === String(segment),
      );
      if (!pair) return { ...offsets, node: undefined };
      const key = offsetOf(pair.key, offsets.key);
      node = pair.value;
      offsets = { key, value: offsetOf(node, key) };
    } else if (isSeq(node)) {
      node = node.items[Number(segment)];
      if (node === undefined) return { ...offsets, node };
      offsets = { key: offsetOf(node, offsets.key), value: offsetOf(node, offsets.value) };
    } else return { ...offsets, node: undefined };
  }
  return { ...offsets, node };
}

function offsetOf(node: unknown, otherwise: number): number {
  return (node as Node | null)?.range?.[0] ?? otherwise;
}
