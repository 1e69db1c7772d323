/**
 * An importer, or a company, makes catalogues of thousands of tools. Work that grows with the square of them is not seen in a small example and
 * stops an editor in a large one. Ratios of CPU time within one run: a busy machine lengthens neither.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { compileFolder } from '../../src/contract/compile.js';
import type { JsonObject } from '../../src/model.js';
import { projectFile } from '../../src/project.js';
import { retailText } from './fixture.js';

const { upstream, entities, tools } = parse(retailText) as Record<'upstream' | 'entities' | 'tools', JsonObject>;
const names = new RegExp(`"(${Object.keys(tools).join('|')})"`, 'g');

/** The example, so many times in one file, each with names of its own. */
function copies(count: number): string {
  const all = Array.from({ length: count }, (_, index) => {
    const entity = `order_${index}`;
    const own = JSON.stringify({ entities, tools }).replaceAll(names, (_match, name: string) => `"${name}_${index}"`).replaceAll(/\border\b(?=[."])/g, entity).replaceAll('50000', String(50_000 + index));
    return JSON.parse(own) as { entities: JsonObject; tools: JsonObject };
  });
  const merged = (member: 'entities' | 'tools'): JsonObject => Object.assign({}, ...all.map((each) => each[member])) as JsonObject;
  return JSON.stringify({ callgate: 1, service: 'retail', upstream, entities: merged('entities'), tools: merged('tools') });
}

/** The example, so many times, each a file and a service, under its own policies. */
function folderOf(services: number): string {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-memory-'));
  const policies = readFileSync(projectFile('examples', 'retail', 'contracts', 'policies', 'retail.cedar'), 'utf8');
  mkdirSync(join(dir, 'policies'));
  writeFileSync(join(dir, 'policies', 'retail.cedar'), policies.replaceAll(names, '"$1_0"'));
  for (let index = 0; index < services; index++) {
    const own = JSON.stringify({ entities, tools }).replaceAll(names, (_match, name: string) => `"${name}_${index}"`).replaceAll('50000', String(50_000 + index));
    const document = { callgate: 1, service: `retail-${index}`, upstream, ...(JSON.parse(own) as JsonObject), policies: 'policies/retail.cedar' };
    writeFileSync(join(dir, `retail-${index}.json`), JSON.stringify(document));
  }
  return dir;
}

function chain(length: number): string {
  const $defs = Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, i < length - 1 ? { type: 'object', properties: { a: { $ref: `#/$defs/d${i + 1}` } } } : { type: 'integer' }]));
  const args = { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs };
  return JSON.stringify({ callgate: 1, service: 's', upstream, tools: { t: { version: '1.0.0', effect: 'none', purpose: 'p', args, result: args, http: { method: 'GET', path: '/x' } } } });
}

/** Each of the tools observes one whose name is misspelt. */
function misspelt(count: number): string {
  const nothing = { type: 'object', properties: {} };
  const tool = (i: number): JsonObject => ({
    version: '1.0.0', effect: 'none', purpose: 'p', args: nothing, result: nothing, http: { method: 'GET', path: '/x' }, observe: { o: { tool: `read_the_thing_${i}x`, args: {}, max_age: '5s' } },
  });
  return JSON.stringify({ callgate: 1, service: 's', upstream, tools: Object.fromEntries(Array.from({ length: count }, (_, i) => [`read_the_thing_${i}`, tool(i)])) });
}

function cpuMs(text: string): number {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-scaling-'));
  writeFileSync(join(dir, 'many.json'), text);
  const before = process.cpuUsage();
  const result = compileFolder(dir, {});
  const { user, system } = process.cpuUsage(before);
  expect('diagnostics' in result ? result.diagnostics.filter(({ severity }) => severity === 'error') : []).toEqual([]);
  return (user + system) / 1000;
}

test('four times the tools, or twice the definitions one inside the other, are not sixteen or eight times the work', () => {
  cpuMs(copies(10)); // what is compiled first pays for the compiler itself
  expect(cpuMs(copies(48)) / cpuMs(copies(12))).toBeLessThan(10);
  expect(cpuMs(chain(140)) / cpuMs(chain(70))).toBeLessThan(8);
}, 120_000);

test('2,000 misspelt names among 2,000 tools are all told, each with what was meant, in bounded work', () => {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-misspelt-'));
  writeFileSync(join(dir, 'many.json'), misspelt(2_000));
  const before = process.cpuUsage();
  const result = compileFolder(dir, {});
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(5_000);
  const told = 'diagnostics' in result ? result.diagnostics : [];
  expect(told.length).toBe(2_000);
  for (const { message } of told) expect(message).toMatch(/there is no tool `(read_the_thing_\d+)x`; did you mean `\1`\?/);
}, 60_000);

test('checking 500 tools takes less than 300 MB', () => {
  const told = "data:text/javascript,process.on('exit', () => console.error(`peak ${process.resourceUsage().maxRSS}`))";
  const { stdout, stderr } = spawnSync(process.execPath, ['--import', told, projectFile('bin', 'callgate.mjs'), 'check', folderOf(72)], { encoding: 'utf8' });
  expect(stdout).toMatch(/^504 tools/);
  expect(Number(/peak (\d+)/.exec(stderr)?.[1]) / 1024).toBeLessThan(300);
}, 60_000);
