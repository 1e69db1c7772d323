/** One slip after another in a YAML text, each where a person could make it, with the rest left exactly where it stands. */
import { isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, type Scalar } from 'yaml';

export interface Slip {
  /** From the top of the document to what was changed, for instance `tools.issue_credit.http.method`. */
  path: string;
  /** `delete`, `misspell`, `value` (another of the same kind) or `type` (another kind). */
  kind: 'delete' | 'misspell' | 'value' | 'type';
  what: string;
  text: string;
  /** Of the change, and of the names above it, the nearest first. */
  line: number;
  parents: number[];
  /** The text that was there. */
  was: string;
}

export function slipsOf(text: string): Slip[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const found: Slip[] = [];
  const lineAt = (offset: number): number => lines.linePos(offset).line;
  const slip = (kind: Slip['kind'], path: readonly string[], from: number, to: number, by: string, parents: number[], was: string): void => {
    const what = kind === 'delete' ? `without \`${was.slice(0, 40)}\`` : `\`${text.slice(from, to).slice(0, 80)}\` → \`${by.slice(0, 80)}\``;
    found.push({ path: path.join('.'), kind, what, text: text.slice(0, from) + by + text.slice(to), line: lineAt(from), parents, was: kind === 'delete' ? text.slice(from, to) : was });
  };
  const remove = (path: readonly string[], [from, to]: [number, number], flow: boolean, parents: number[], was: string): void => {
    const before = text.lastIndexOf('\n', from) + 1;
    // The first member of an item stands beside its dash, which stays.
    const [start, end] = flow ? withComma(text, from, to) : [text.slice(before, from).trim() === '' ? before : from, to];
    // The lines stay, so that every other finding stands where it stood.
    slip('delete', path, start, end, text.slice(start, end).replaceAll(/[^\n]+/g, ''), parents, was);
    found.at(-1)!.line = lineAt(from);
  };
  const scalar = (node: Scalar, path: readonly string[], parents: number[]): void => {
    const [from, to] = node.range!;
    const was = String(node.value);
    const words = typeof node.value === 'string' ? misspellings(text.slice(from, to)) : [];
    for (const [offset, by] of prose.test(path.join('.')) ? words.slice(0, 1) : words) slip('misspell', path, from, to, by, parents, text.slice(from + offset.from, from + offset.to));
    for (const by of others(node.value)) slip('value', path, from, to, by, parents, was);
    // In a schema, or for readers, a text of another kind says what a misspelt one does.
    const again = typeof node.value === 'string' && (prose.test(path.join('.')) || /\.(args|result)\./.test(path.join('.')));
    if (!again) slip('type', path, from, to, typeof node.value === 'string' ? '7' : 'x', parents, was);
  };
  const walk = (node: unknown, path: readonly string[], parents: number[]): void => {
    if (isScalar(node)) scalar(node, path, parents);
    const flow = (node as { flow?: boolean }).flow === true;
    if (isMap(node)) for (const pair of node.items) member(pair as Pair<Scalar, Node | null>, path, parents, flow);
    if (isSeq(node)) {
      for (const [index, item] of (node.items as Node[]).entries()) {
        const below = [...path, String(index)];
        const from = flow ? item.range![0] : text.lastIndexOf('- ', item.range![0]);
        remove(below, [from, item.range![1]], flow, parents, text.slice(item.range![0], item.range![1]));
        walk(item, below, [lineAt(item.range![0]), ...parents]);
      }
    }
  };
  const member = ({ key, value }: Pair<Scalar, Node | null>, path: readonly string[], parents: number[], flow: boolean): void => {
    const name = String(key.value);
    const below = [...path, name];
    const [from, to] = key.range!;
    remove(below, [from, value?.range?.[1] ?? to], flow, parents, name);
    const [misspelt] = misspellings(text.slice(from, to));
    if (misspelt) slip('misspell', below, from, to, misspelt[1], parents, name);
    if (value) walk(value, below, [lineAt(from), ...parents]);
  };
  walk(document.contents, [], []);
  return found;
}

function withComma(text: string, from: number, to: number): [number, number] {
  const after = /^\s*,\s*/.exec(text.slice(to));
  if (after) return [from, to + after[0].length];
  const before = /,\s*$/.exec(text.slice(0, from));
  return [before ? from - before[0].length : from, to];
}

/** For readers alone: one word of each says what all would. */
const prose = /\.(purpose|use_when|not_when|description|message|summary|creates|pattern)$|^upstream\.base_url$/;

/** Each word with one letter doubled, where it stands first: the text once for each. */
export function misspellings(text: string): [{ from: number; to: number }, string][] {
  const seen = new Set<string>();
  const words = [...text.matchAll(/[A-Za-z_]{2,}/g)].filter(({ 0: word }) => !seen.has(word) && seen.add(word));
  return words.map(({ 0: word, index }) => {
    const middle = index + Math.floor(word.length / 2);
    return [{ from: index, to: index + word.length }, `${text.slice(0, middle)}${text[middle]}${text.slice(middle)}`];
  });
}

function others(value: unknown): string[] {
  if (typeof value === 'number') return [String(value + 1)];
  if (typeof value === 'boolean') return [String(!value)];
  const [, count, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(String(value)) ?? [];
  return count === undefined ? [] : [`${Number(count) + 1}${unit}`, count, `${count}${unit}s`];
}
