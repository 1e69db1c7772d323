/** Scripts act on exit statuses: 0 is done, 1 is refused, 2 is that nothing could be done with what was asked for. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { diff } from '../../src/cli/diff.js';
import { importContract } from '../../src/cli/import.js';
import { UsageError } from '../../src/cli/usage.js';
import { compileFolder } from '../../src/contract/compile.js';
import { catalogueOf, retailFolder, retailText } from './fixture.js';

let [out, err] = ['', ''];
beforeEach(() => {
  [out, err] = ['', ''];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    out += String(text);
    return true;
  });
  vi.spyOn(console, 'error').mockImplementation((text: unknown) => {
    err += `${String(text)}\n`;
  });
});
afterEach(() => vi.restoreAllMocks());

const folder = (): string => mkdtempSync(join(tmpdir(), 'callgate-command-'));

describe('callgate diff', () => {
  const changed = folder();
  cpSync(retailFolder, changed, { recursive: true });
  writeFileSync(join(changed, 'retail.yaml'), retailText.replace('attempts: 3', 'attempts: 5'));

  test('refuses a changed retry rule under an unchanged version with 1, and names it with both values', async () => {
    expect(await diff([retailFolder, changed])).toBe(1);
    expect(out).toContain('retry.attempts: 3 → 5');
    expect(await diff([retailFolder, changed, '--format', 'json'])).toBe(1);
    expect(JSON.parse(out.slice(out.indexOf('{\n')))).toMatchObject({ refused: true, tools: [{ tool: 'issue_credit', must_move: 'minor', fields: [{ field: 'retry.attempts', old: 3, now: 5 }] }] });
  });

  test('is 0 when nothing has changed, a stored catalogue included', async () => {
    const stored = join(folder(), 'source.json');
    writeFileSync(stored, catalogueOf(compileFolder(retailFolder, {})).source);
    expect(await diff([stored, retailFolder])).toBe(0);
    expect(out).toBe('nothing has changed\n');
  });

  test('is 2 with the diagnostics when a side cannot be compared', async () => {
    const broken = folder();
    writeFileSync(join(broken, 'retail.yaml'), retailText.replace('effect: irreversible', 'effect: "GAP: which"'));
    expect(await diff([retailFolder, broken])).toBe(2);
    expect(err).toContain('CG901');
    await expect(diff([retailFolder, join(broken, 'retail.yaml')])).rejects.toBeInstanceOf(UsageError);
    await expect(diff([retailFolder])).rejects.toBeInstanceOf(UsageError);
  });
});

describe('callgate import openapi', () => {
  const file = join(folder(), 'api.json');
  writeFileSync(file, JSON.stringify({ openapi: '3.0.0', info: { title: 'A' }, paths: { '/a': { get: { operationId: 'getA', tags: ['t'], responses: { 204: { description: '' } } } } } }));

  test('writes a draft to standard output, or to a file that does not exist', async () => {
    expect(await importContract(['openapi', file, '--tag', 't'])).toBe(0);
    expect(out).toContain('getA:');
    const target = join(folder(), 'a.yaml');
    expect(await importContract(['openapi', file, '--select', 'get*', '--service', 'shop', '--out', target])).toBe(0);
    expect(readFileSync(target, 'utf8')).toContain('service: shop');
    await expect(importContract(['openapi', file, '--tag', 't', '--out', target])).rejects.toThrow(/exists already/);
  });

  test('without a choice is 2, with what there is to choose from', async () => {
    expect(await importContract(['openapi', file])).toBe(2);
    expect(err).toMatch(/1 operations.*\nTags: t \(1\)\n {2}getA {2}GET \/a/s);
    expect(out).toBe('');
  });

  test('of what cannot be read is 1, with its place', async () => {
    const damaged = join(folder(), 'api.json');
    writeFileSync(damaged, '{"openapi": "3.0.0",\n "paths": oops}');
    expect(await importContract(['openapi', damaged, '--tag', 't'])).toBe(1);
    expect(err).toMatch(/api\.json:2:11: /);
    await expect(importContract(['openapi', '/nowhere', '--tag', 't'])).rejects.toBeInstanceOf(UsageError);
  });
});
