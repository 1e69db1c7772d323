/**
 * Random changes of any value of the example are refused or change the digest of the tool that they are in, which is what a pinned caller, a
 * receipt and `callgate diff` see. every-line.test.ts makes the slips of people, one on every line.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { canonicalText } from '../../src/canonical.js';
import { compileFolder } from '../../src/contract/compile.js';
import type { Catalogue } from '../../src/contract/plan.js';
import type { Json, JsonObject } from '../../src/model.js';
import { catalogueOf, folderWith, retailFolder, retailText } from './fixture.js';

type Place = (string | number)[];
const document = parse(retailText) as JsonObject;
const original = catalogueOf(compileFolder(retailFolder, {}));

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

const result = (mutant: JsonObject) => compileFolder(folderWith(JSON.stringify(mutant)).dir, {});

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
}, 180_000);

function other(value: Json, kind: string, amount: number): Json {
  if (kind === 'kind') return typeof value === 'string' ? amount : String(value);
  if (typeof value === 'number') return value + amount - 10;
  if (typeof value === 'boolean') return !value;
  return typeof value === 'string' ? value.replace(/[0-9a-z]/i, 'q') : null;
}

function digestOf(catalogue: Catalogue, tool: Json | undefined): string | undefined {
  return catalogue.tools.get(String(tool))?.digest;
}
