import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { loadConfig, renderConfigJsonSchema, renderConfigReference } from '../../src/config/index.js';
import { settings } from '../../src/config/registry.js';

const folder = mkdtempSync(join(tmpdir(), 'config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the published JSON Schema is the one that the settings generate', async () => {
  await expect(renderConfigJsonSchema()).toMatchFileSnapshot('../../schemas/callgate.schema.json');
});

test('the published reference is the one that the settings generate', async () => {
  await expect(renderConfigReference()).toMatchFileSnapshot('../../docs/configuration.md');
});

test('every setting has a name of its own in the environment, and it works', () => {
  const names = settings.flatMap(({ variables }) => variables);
  expect(new Set(names).size).toBe(names.length);
  for (const { variables, path, schema } of settings) {
    if (schema.default === null) continue;
    for (const name of variables) expect(loadConfig({ env: { [name]: String(schema.default) }, folder }), path).toHaveProperty('config');
    if (schema.type !== 'string' || schema.pattern) expect(loadConfig({ env: { [variables[0] ?? '']: '!' }, folder }), path).toHaveProperty('problems');
  }
});

test('an editor that follows the schema and the gateway agree on every file, ranges of durations and sizes apart', () => {
  const valid = new Ajv2020().compile(JSON.parse(renderConfigJsonSchema()));
  const value = fc.constantFrom<unknown>('1s', '10s', '64KiB', '2MiB', '15', '1 s', '', 'info', 'warn', 'text', true, false, null, 0, 1, 0.5, 30, 70_000, -1, [], {}, 'postgres://h/d', 'http://h');
  const place = fc.constantFrom(...settings.map(({ path }) => path), 'limits.dept', 'limit.depth', 'mood');
  const file = join(folder, 'callgate.yaml');
  fc.assert(fc.property(place, value, (path, raw) => {
    const [section = '', key] = path.split('.');
    const document = key === undefined ? { [section]: raw } : { [section]: { [key]: raw } };
    writeFileSync(file, stringify(document));
    const loaded = loadConfig({ env: {}, file });
    const problems = 'problems' in loaded ? loaded.problems.map(({ message }) => message) : [];
    // what JSON Schema cannot say: the range of a measure, two settings together, strength in production
    const measured = settings.find((setting) => setting.path === path)?.meaning.kind;
    const outOfRange = (measured === 'duration' && /^\d+s$/.test(String(raw))) || (measured === 'size' && /^\d+[KM]iB$/.test(String(raw)));
    const beyondSchema = outOfRange || problems.every((message) => /greater than|same as|belong together|no effect without TLS|would let nobody in|no listener asks|production needs|cannot be used/.test(message));
    expect(valid(document), problems.join()).toBe(problems.length === 0 || beyondSchema);
  }), { numRuns: 400 });
});
