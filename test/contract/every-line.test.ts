/**
 * A slip in a contract must not change what it means unnoticed. Every member of the example is deleted, every name and every word of an
 * expression misspelt, every value changed and made of another kind, one at a time, and so is every line of its policy. Each is an error where
 * it was made; or, where others refer to what it took away, an error there that names it; or it compiles, and `callgate diff` does not let
 * it pass under the same version. `EVERY_SLIP=1` makes all of them; the suite makes every second one, on every line.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import type { Diagnostic } from '../../src/contract/diagnostics.js';
import { type CatalogueDiff, diffSources } from '../../src/contract/diff/diff.js';
import { readCanonicalSource } from '../../src/contract/source.js';
import { catalogueOf, folderWith, retailFolder, retailText } from './fixture.js';
import { misspellings, type Slip, slipsOf } from './every-line.js';

const original = catalogueOf(compileFolder(retailFolder, {}));
const { dir } = folderWith(retailText);

/** Compiles, and no tool has a version that could move: what has changed is told with its class all the same. */
const unversioned: [RegExp, string][] = [
  [/^upstream(\.|$)/, 'how a service is reached belongs to no tool'],
  [/^policies(\.|$)/, 'policies have no version; which of them decided is in every receipt'],
  [/^tools\.(quote_credit|convert_temperature)$/, 'nothing refers to the tool, so taking it away or calling it otherwise is for its callers to notice: breaking'],
  [/^tools\.\w+\.version$/, 'it is the version itself'],
];

function judge(): { errors: Diagnostic[] } | { diff: CatalogueDiff } {
  const result = compileFolder(dir, {});
  if ('diagnostics' in result) return { errors: result.diagnostics.filter(({ severity }) => severity === 'error') };
  return { diff: diffSources(readCanonicalSource(original.source), readCanonicalSource(result.catalogue.source)) };
}

/** Names that the changed place declares, or that stood in it. */
function namesOf({ path, was }: Slip): RegExp {
  const segments = path.split('.');
  const declared = segments.filter((_, index) => /^(tools|entities|properties|bind)$/.test(segments[index - 1] ?? ''));
  return new RegExp(`\\b(${[...declared, ...(was.match(/[A-Za-z_]{2,}/g) ?? [])].join('|')})\\b`);
}

const lines = retailText.split('\n');
const policyLines = readFileSync(join(retailFolder, 'policies/retail.cedar'), 'utf8').split('\n');

function misplaced(slip: Slip, errors: readonly Diagnostic[]): Diagnostic[] {
  const here = new Set([slip.line, ...slip.parents]);
  const names = namesOf(slip);
  return errors.filter(({ file, line, message }) => {
    const text = (file === 'retail.yaml' ? lines : policyLines)[line - 1] ?? '';
    return !(file === 'retail.yaml' && here.has(line)) && !names.test(text) && !names.test(message);
  });
}

test('every slip in the contract is an error in its place, or asks for another version', () => {
  const told: string[] = [];
  let [there, elsewhere, versioned] = [0, 0, 0];
  const slips = slipsOf(retailText).filter((_, index) => index % 2 === 0 || process.env['EVERY_SLIP'] !== undefined);
  for (const slip of slips) {
    const name = `${slip.line} ${slip.kind} ${slip.path}: ${slip.what}`;
    writeFileSync(join(dir, 'retail.yaml'), slip.text);
    const verdict = judge();
    if ('errors' in verdict) {
      const here = verdict.errors.some(({ file, line }) => file === 'retail.yaml' && (line === slip.line || line === slip.parents[0]));
      if (here) there++;
      else elsewhere++;
      for (const { file, line, code, message } of misplaced(slip, verdict.errors)) told.push(`${name} => ${file}:${line} ${code} ${message}`);
    } else if (verdict.diff.refused) versioned++;
    else if (!(verdict.diff.impact !== null || /\.version$/.test(slip.path)) || !unversioned.some(([known]) => known.test(slip.path))) told.push(`${name} => ${verdict.diff.impact}`);
  }
  writeFileSync(join(dir, 'retail.yaml'), retailText);
  expect(told).toEqual([]);
  expect(new Set(slips.map(({ line }) => line)).size).toBe(lines.filter((line) => /^[^#]*[^#\s]/.test(line)).length);
  expect(there + elsewhere + versioned).toBeGreaterThan(500);
  // What a slip takes away is told where it is missed; everything else where the slip is.
  expect(there).toBeGreaterThan(5 * elsewhere);
}, 600_000);

test('every slip in the policy is an error in its statement, or a change that is told', () => {
  const withLine = (index: number, line: string): [number, string] => [index, policyLines.map((each, at) => (at === index ? line : each)).join('\n')];
  const silent: string[] = [];
  const without = policyLines.map((_, index) => withLine(index, '')).filter(([index]) => policyLines[index] !== '');
  const misspelt = policyLines.flatMap((line, index) => misspellings(line).map(([, by]) => withLine(index, by)));
  for (const [index, changed] of [...without, ...misspelt]) {
    writeFileSync(join(dir, 'policies/retail.cedar'), changed);
    const verdict = judge();
    if ('errors' in verdict) {
      const strays = verdict.errors.filter(({ file, line }) => file !== 'policies/retail.cedar' || Math.abs(line - 1 - index) > 8);
      if (strays.length > 0) silent.push(`${index + 1} => ${strays.map(({ file, line, message }) => `${file}:${line} ${message}`).join(' | ')}`);
    } else if (verdict.diff.policies.length === 0) silent.push(`${index + 1}: ${changed.split('\n')[index]}`);
  }
  expect(silent).toEqual([]);
  expect(misspelt.length).toBeGreaterThan(50);
}, 300_000);
