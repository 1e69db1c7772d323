import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { settings } from '../../src/config/registry.js';
import { nameInCode } from '../../src/config/settings.js';
import { diagnosticHelp } from '../../src/contract/diagnostics.js';
import { problems } from '../../src/errors.js';
import { dispositions, nextActions, operationStates } from '../../src/model.js';
import { projectFile } from '../../src/project.js';
import { createMetrics } from '../../src/telemetry/metrics.js';
import { page, pages, quoted } from './pages.js';

const source = (file: string): string => readFileSync(projectFile(file), 'utf8');
const code = readdirSync(projectFile('src'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).map((name) => source(join('src', name)));
const written = pages.filter(({ file }) => !['docs/errors.md', 'docs/configuration.md', 'docs/diagnostics.md'].includes(file) && !file.startsWith('examples'));
const variables = new Set(['CALLGATE_CONFIG', ...settings.flatMap((setting) => setting.variables)]);

/** A name in the pages that the code does not have is a promise that nobody keeps. */
describe('names in the pages exist in the code', () => {
  it.each(written.map(({ file }) => file))('%s: problem codes, reasons and variables', (file) => {
    const quotedCode = (name: string): boolean => code.some((text) => text.includes(`'${name}'`));
    const ofExample = source('examples/retail/contracts/retail.yaml') + source('examples/retail/service/README.md') + source('docker-compose.yml');
    const ofOthers = new Set(['NODE_ENV', 'CODE', 'CI', 'VAR', 'NAME']);
    for (const name of quoted(page(file).prose).filter((text) => /^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$/.test(text) && text.length > 2)) {
      const known = name in problems || name in diagnosticHelp || variables.has(name) || ofOthers.has(name) || quotedCode(name) || ofExample.includes(name);
      expect(known, name).toBe(true);
    }
  });

  it.each(written.map(({ file }) => file).filter((file) => file !== 'docs/contracts.md'))('%s: settings', (file) => {
    const sections = new Set(settings.flatMap(({ section }) => section ?? []));
    // what a contract says of an upstream has the name of a section
    const ofContracts = new Set(['upstream.limits.concurrency']);
    for (const name of quoted(page(file).prose).filter((text) => /^[a-z]+(\.[a-z_]+)+$/.test(text) && sections.has(text.split('.')[0] ?? '') && !ofContracts.has(text))) {
      if (/\.(ts|md|json|yaml|mjs)$/.test(name)) continue;
      expect(settings.map(({ path }) => path), name).toContain(name);
    }
  });

  it('docs/operations.md: metrics and their labels', async () => {
    const metrics = await createMetrics({ version: '0', process: false }).page.metrics();
    for (const name of quoted(page('docs/operations.md').prose).filter((text) => text.startsWith('callgate_'))) expect(metrics, name).toContain(`# TYPE ${name.replace(/\{.*/, '')} `);
  });
});

describe('the pages name all that there is', () => {
  const { prose } = page('docs/protocol.md');
  it('docs/protocol.md: dispositions, next actions and paths', () => {
    for (const word of [...dispositions, ...nextActions]) expect(quoted(prose), word).toContain(word);
    const { paths } = parse(source('openapi.yaml')) as { paths: Record<string, Record<string, unknown>> };
    const routes = Object.entries(paths).flatMap(([path, item]) => Object.keys(item).filter((key) => ['get', 'post', 'put', 'delete'].includes(key)).map((method) => `${method.toUpperCase()} ${path}`));
    const named = quoted(prose).filter((text) => /^(GET|POST|PUT|DELETE) \//.test(text)).map((text) => text.replace(/\?.*/, ''));
    expect([...new Set(named)].sort()).toEqual(routes.sort());
  });

  it('docs/contracts.md: every member of the contract language that this version carries out', () => {
    const { $defs } = JSON.parse(source('schemas/contract.schema.json')) as { $defs: Record<string, { properties?: object }> };
    const unenforced = ['partial', 'public', 'untrusted', 'durability'];
    const words = new Set(quoted(page('docs/contracts.md').prose).flatMap((text) => text.split(/[^\w]+/)));
    for (const kind of ['tool', 'entity', 'upstream', 'readback']) {
      for (const member of Object.keys($defs[kind]?.properties ?? {}).filter((name) => !unenforced.includes(name))) expect(words, `${kind}.${member}`).toContain(member);
    }
  });

  it('ARCHITECTURE.md: tables, states and rooms', () => {
    const { text } = page('ARCHITECTURE.md');
    for (const [, table] of source('migrations/0001-ledger.sql').matchAll(/^create table (\w+)/gm)) expect(text, table).toContain(`\`${table}\``);
    for (const room of readdirSync(projectFile('src'), { withFileTypes: true }).filter((entry) => entry.isDirectory())) expect(text, room.name).toContain(`src/${room.name}/`);
    for (const state of operationStates.filter((name) => name !== 'parked' && name !== 'approved')) expect(text, state).toContain(state);
  });

  it('ARCHITECTURE.md: which settings have no effect yet, no more and no fewer', () => {
    const listed = /\*\*Settings\*\*([\s\S]*)$/.exec(page('ARCHITECTURE.md').text)?.[1] ?? '';
    const named = quoted(listed);
    const claimed = settings.filter(({ path, section }) => named.includes(path) || (section !== null && named.includes(section))).map(({ path }) => path);
    // read while the configuration itself is read
    const settled = ['mode', 'secrets.key_pepper_file', 'secrets.seal_key_file', 'secrets.signing_keys_file'];
    const idle = settings.filter(({ path, section, key, meaning }) =>
      !settled.includes(path) && !code.some((text) => text.includes(`config.${section}.${nameInCode(key, meaning.kind)}`))).map(({ path }) => path);
    expect(claimed.sort()).toEqual(idle.sort());
  });
});
