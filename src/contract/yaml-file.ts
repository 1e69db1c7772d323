/** One contract file: YAML 1.2 (JSON is a part of it) to JSON, strictly, keeping where everything stands. */
import {
  Composer,
  type CST,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  Parser,
  visit,
  YAMLParseError,
  type Document,
  type Node,
  type Pair,
  type YAMLMap,
  type YAMLError,
} from 'yaml';
import type { Json } from '../model.js';
import { diagnostic, type Diagnostic, type DiagnosticCode, type Position } from './diagnostics.js';
import type { Path } from './pointer.js';
import type { SourceFile } from './source.js';

/** Of one file. Reading takes some seventy times its size in memory. */
const maxBytes = 16 * 1024 * 1024;
/**
 * Of objects and lists within one another. What is composed of them recurses, as does whoever walks the document, and V8 ends the process
 * when a regular expression is compiled at the end of the stack.
 */
const maxNesting = 256;
/** How often an anchor may be used, and how many nodes that may become: enough to share schemas, too few for a bomb. */
const maxAliases = 1000;
const maxAliasCount = 100;

export function parseContractFile(file: string, text: string): { source: SourceFile } | { diagnostics: Diagnostic[] } {
  const lines = new LineCounter();
  const at = (offset: number): Position => positionOf(lines, offset);
  const refused = (offset: number, message: string): { diagnostics: Diagnostic[] } => ({ diagnostics: [diagnostic(file, at(offset), 'CG003', message)] });
  if (text.length > maxBytes) return refused(0, `the file is larger than ${maxBytes / 1024 / 1024} MB; divide it`);
  try {
    const document = compose(text, lines);
    const found = [...document.errors, ...document.warnings].map((error) => syntaxDiagnostic(file, error, at));
    found.push(...unfitNodes(file, document, at));
    if (found.length > 0) return { diagnostics: found };
    const json = (document.toJS({ maxAliasCount }) ?? null) as Json;
    return { source: { file, document: json, ...locator(text) } };
  } catch (thrown) {
    if (thrown instanceof TooDeep) return refused(thrown.offset, `objects and lists are nested more than ${maxNesting} deep`);
    return refused(0, `the document cannot be resolved: ${(thrown as Error).message}`);
  }
}

class TooDeep extends Error {
  constructor(readonly offset: number) {
    super();
  }
}

/** As `parseDocument` of the library does it, which knows no bound. */
function compose(text: string, lines: LineCounter): Document {
  const composer = new Composer({ uniqueKeys: false, version: '1.2', merge: false, stringKeys: true });
  const [document, second] = composer.compose(shallow(text, lines), true, text.length);
  if (!document) throw new Error('it is empty');
  if (second) document.errors.push(new YAMLParseError([second.range[0], second.range[1]], 'MULTIPLE_DOCS', 'a file holds one document, and another begins here'));
  return document;
}

function* shallow(text: string, lines: LineCounter): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    if (parser.stack.length > maxNesting) throw new TooDeep(parser.offset);
  }
  yield* parser.end();
}

function syntaxDiagnostic(file: string, error: YAMLError, at: (offset: number) => Position): Diagnostic {
  const code: DiagnosticCode = error.code === 'BAD_ALIAS' ? 'CG003' : 'CG001';
  return diagnostic(file, at(error.pos[0]), code, error.message.split('\n')[0] ?? '');
}

function unfitNodes(file: string, document: Document, at: (offset: number) => Position): Diagnostic[] {
  const found: Diagnostic[] = [];
  const report = ({ range }: { range?: readonly number[] | null | undefined }, code: DiagnosticCode, message: string): void => {
    found.push(diagnostic(file, at(range?.[0] ?? 0), code, message));
  };
  const anchors = new Map<string, unknown>();
  let aliases = 0;
  const anchored = (node: Node & { anchor?: string }): void => {
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
  };
  visit(document, {
    Alias(_, alias, path) {
      if (!anchors.has(alias.source)) report(alias, 'CG003', `the alias \`*${alias.source}\` stands for nothing`);
      else if (path.includes(anchors.get(alias.source) as never)) report(alias, 'CG003', `the alias \`*${alias.source}\` stands for something that holds it`);
      if (++aliases <= maxAliases) return undefined;
      report(alias, 'CG003', `there are more than ${maxAliases} aliases`);
      return visit.BREAK;
    },
    // Not by the parser's own `uniqueKeys`, which compares each name with each: a file of 100,000 members took it minutes.
    Map(_, map) {
      const names = new Set<string>();
      for (const { key } of map.items) {
        if (!isScalar(key)) continue;
        const name = String(key.value);
        if (names.has(name)) report(key, 'CG002', `\`${name}\` is written twice in one object`);
        names.add(name);
      }
      anchored(map);
    },
    Seq: (_, list) => anchored(list),
    Scalar(_, scalar) {
      const { value, source } = scalar;
      if (typeof value === 'number' && !(Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value)))
        report(scalar, 'CG003', `the number \`${source ?? value}\` cannot be carried exactly`);
      anchored(scalar);
    },
  });
  return found;
}

/** Most files have no finding, and the tree takes some fifteen times its text: it is dropped, and made again for the first place asked for. */
function locator(text: string): Pick<SourceFile, 'valuePosition' | 'keyPosition'> {
  let composed: { document: Document; lines: LineCounter } | undefined;
  const located = (offsetIn: (document: Document) => number): Position => {
    if (!composed) {
      const lines = new LineCounter();
      composed = { document: compose(text, lines), lines };
    }
    return positionOf(composed.lines, offsetIn(composed.document));
  };
  return {
    valuePosition: (path, offset = 0) =>
      located((document) => {
        const { node, value } = walk(document, path);
        return value + textOffset(node, offset);
      }),
    keyPosition: (path) => located((document) => walk(document, path).key),
  };
}

function positionOf(lines: LineCounter, offset: number): Position {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
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
      const pair = pairsOf(node).get(String(segment));
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

const known = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();

/** By name: a file of thousands of tools has as many findings, and each begins at its top. */
function pairsOf(map: YAMLMap): ReadonlyMap<string, Pair> {
  const pairs = known.get(map) ?? new Map(map.items.flatMap((item) => (isPair(item) && isScalar(item.key) ? [[String(item.key.value), item]] : [])));
  known.set(map, pairs);
  return pairs;
}

function offsetOf(node: unknown, otherwise: number): number {
  return (node as Node | null)?.range?.[0] ?? otherwise;
}
