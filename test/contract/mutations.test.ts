/**
 * A slip in a contract must not change what it means unnoticed. Each identifier and each expression of the example is misspelt in turn:
 * an error on that very line, or else a text that only its service could know to be wrong, listed here. Random changes of any value
 * are refused or change the digest of the tool that they are in, which is what a pinned caller, a receipt and `callgate diff` see.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { canonicalText } from '../../src/canonical.js';
import { compileFolder } from '../../src/contract/compile.js';
import type { Catalogue } from '../../src/contract/plan.js';
import type { Json, JsonObject } from '../../src/model.js';
import { catalogueOf, folderWith, retailFolder, retailText } from './fixture.js';

type Place = (string | number)[];
const document = parse(retailText) as JsonObject;
const original = catalogueOf(compileFolder(retailFolder, {}));

/** What nobody but the service, or the reader, can know: its addresses, the codes and members of its errors, our own names for things, prose. */
const knownToOthers = [
  /^service$/,
  /^upstream\./,
  /\.version$/,
  /\.http\.(path|method|query\.\w+)$/,
  /\.errors\.\d+\.(when|code)$/,
  /\.preconditions\.\d+\.(id|otherwise\.code)$/,
  /\.examples\./,
  /\.(purpose|use_when|not_when|description|message|summary|creates|pattern)$/,
  /\.currency\.enum\.0$/,
  /^tools\.cancel_order\.result\.properties\.status\.enum\.\d$/,
];

function places(node: Json, path: Place = []): Place[] {
  if (typeof node !== 'object' || node === null) return [path];
  return Object.entries(node).flatMap(([name, member]) => places(member, [...path, Array.isArray(node) ? Number(name) : name]));
}

function at(path: Place): Json {
  return path.reduce<Json>((node, segment) => (node as Record<string | number, Json>)[segment]!, document);
}

function changed(path: Place, value: Json | undefined): JsonObject {
  const copy = structuredClone(document);
  const parent = path.slice(0, -1).reduce<Json>((node, segment) => (node as Record<string | number, Json>)[segment]!, copy) as Record<string | number, Json>;
  const last = path.at(-1)!;
  if (value !== undefined) parent[last] = value;
  else if (Array.isArray(parent)) parent.splice(Number(last), 1);
  else delete parent[last];
  return copy;
}

/** Every word with one letter doubled. */
function misspellings(text: string): string[] {
  return [...text.matchAll(/[A-Za-z_]{3,}/g)].map(({ 0: word, index }) => {
    const middle = index + Math.floor(word.length / 2);
    return `${text.slice(0, middle)}${text[middle]}${text.slice(middle)}`;
  });
}

const result = (mutant: JsonObject) => compileFolder(folderWith(JSON.stringify(mutant)).dir, {});

test('a misspelt identifier or expression is an error, wherever it stands, unless only its service could know', () => {
  const silent: string[] = [];
  let tried = 0;
  for (const path of places(document)) {
    const text = at(path);
    const name = path.join('.');
    if (typeof text !== 'string' || knownToOthers.some((known) => known.test(name))) continue;
    for (const wrong of misspellings(text)) {
      tried++;
      if ('catalogue' in result(changed(path, wrong))) silent.push(`${name}: ${wrong}`);
    }
  }
  expect(tried).toBeGreaterThan(150);
  expect(silent).toEqual([]);
}, 120_000);

describe('where the error is', () => {
  test.each([
    'state: order.status',
    'initial: [PENDING]',
    'external: [DELIVERED]',
    'DELIVERED: { issue_credit: DELIVERED }',
    'check: args.amount <= order.refundable',
    'If-Match: "{order.version}"',
    'body: { amount: args.amount, currency: args.currency, customer_id: bound.customer_id }',
    'bind: { customer_id: principal.subject } # never shown',
    'authority: [args.amount]',
    'identity: { scope: intent, arguments: [order_id, amount, currency] }',
    'never: [order.status]',
    'committed: result.count == 1 && result.amount == args.amount',
    'absent: result.count == 0\n      result: result.receipt',
    'result: result.receipt #',
    'when: args.amount > 10000',
    'async: { accepted: status == 202',
    'compensate: { tool: void_credit, args: { receipt_id: result.receipt_id } }',
  ])('%s: on that line and on no other', (passage) => {
    const start = retailText.indexOf(passage);
    const line = retailText.slice(0, start).split('\n').length;
    const words = [...passage.split('\n')[0]!.split('#')[0]!.matchAll(/[A-Za-z_]{3,}/g)];
    const { 0: word, index } = words.at(-1)!;
    const middle = start + index + Math.floor(word.length / 2);
    const { dir } = folderWith(`${retailText.slice(0, middle)}${retailText[middle]}${retailText.slice(middle)}`);
    const found = compileFolder(dir, {});
    expect('diagnostics' in found && [...new Set(found.diagnostics.map((one) => one.line))]).toEqual([line]);
  });
});

test('200 random changes: none compiles without another digest of every tool that it is in', () => {
  const all = places(document);
  let compiled = 0;
  const changes = fc.tuple(fc.nat(all.length - 1), fc.constantFrom('delete', 'other', 'kind'), fc.nat(20));
  fc.assert(
    fc.property(changes, ([index, kind, amount]) => {
      const path = all[index]!;
      const mutant = changed(path, kind === 'delete' ? undefined : other(at(path), kind, amount));
      if (canonicalText(mutant) === canonicalText(document)) return;
      const found = result(mutant);
      if (!('catalogue' in found)) return;
      compiled++;
      expect(found.catalogue.digest).not.toBe(original.digest);
      if (path[0] === 'tools') expect(digestOf(found.catalogue, path[1])).not.toBe(digestOf(original, path[1]));
      if (path[0] === 'upstream') for (const name of original.tools.keys()) expect(digestOf(found.catalogue, name)).not.toBe(digestOf(original, name));
      if (path[0] === 'entities') for (const name of ['issue_credit', 'cancel_order', 'get_order']) expect(digestOf(found.catalogue, name)).not.toBe(digestOf(original, name));
    }),
    { numRuns: 200 },
  );
  expect(compiled).toBeGreaterThan(20);
}, 60_000);

function other(value: Json, kind: string, amount: number): Json {
  if (kind === 'kind') return typeof value === 'string' ? amount : String(value);
  if (typeof value === 'number') return value + amount - 10;
  if (typeof value === 'boolean') return !value;
  return typeof value === 'string' ? value.replace(/[0-9a-z]/i, 'q') : null;
}

function digestOf(catalogue: Catalogue, tool: Json | undefined): string | undefined {
  return catalogue.tools.get(String(tool))?.digest;
}
