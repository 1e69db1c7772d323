/** `callgate check` is what an editor, a reviewer and a pipeline see of the compiler: nothing lost, in their own form, and the right exit. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { check } from '../../src/cli/check.js';
import { UsageError } from '../../src/cli/usage.js';
import type { Diagnostic } from '../../src/contract/diagnostics.js';
import { version } from '../../src/project.js';
import { folderWith, mutated, retailFolder, retailText } from './fixture.js';

const unbounded: [string, string] = ['pattern: "^[A-Za-z0-9_-]+$", maxLength: 64', 'pattern: "^[A-Za-z0-9_-]+$"'];

async function run(...args: string[]): Promise<{ status: number; out: string; err: string }> {
  const told: Record<'log' | 'error', string[]> = { log: [], error: [] };
  for (const stream of ['log', 'error'] as const) vi.spyOn(console, stream).mockImplementation((text: string) => void told[stream].push(text));
  const status = await check(args);
  return { status, out: told.log.join('\n'), err: told.error.join('\n') };
}
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

describe('the exit', () => {
  test('is 0 for what compiles, 0 with warnings, 1 with an error', async () => {
    expect(await run(retailFolder)).toMatchObject({ status: 0, err: '', out: expect.stringMatching(/^7 tools, sha256:/) });
    const warned = await run(mutated(...unbounded).dir);
    expect(warned).toMatchObject({ status: 0, err: expect.stringContaining('warning CG616'), out: expect.stringMatching(/^7 tools/) });
    expect(warned.err).toMatch(/\n1 warning\n$/);
    const both = await run(folderWith(retailText.replace(...unbounded).replace('verify: always', 'verify: allways')).dir);
    expect(both).toMatchObject({ status: 1, out: '' });
    expect(both.err).toMatch(/\n1 error and 1 warning\n$/);
  });

  test('is 1 where the view of a chosen dialect is over its limit, in every form, and 0 where none was chosen', async () => {
    const over = await run(retailFolder, '--limit', 'mcp', '--limit', 'openai-chat=5');
    expect(over).toMatchObject({ status: 1, out: '' });
    expect(over.err).toContain('error CG620: catalogue_too_large: the view for `openai-chat` has 7 tools, and 5 are the most');
    expect(JSON.parse((await run(retailFolder, '--limit', 'anthropic.bytes=100', '--format', 'json')).out)).toMatchObject([{ code: 'CG620', severity: 'error', line: 1 }]);
    expect(await run(retailFolder, '--limit', 'openai-chat', '--limit', 'anthropic.tokens=none')).toMatchObject({ status: 0 });
    await expect(run(retailFolder, '--limit', 'openai')).rejects.toThrow(UsageError);
  });

  test('is 1 for an address that the operator has not allowed: in production, or where it is said who may be where', async () => {
    expect(await run(retailFolder)).toMatchObject({ status: 0 });
    vi.stubEnv('NODE_ENV', 'production');
    const barred = await run(retailFolder);
    expect(barred).toMatchObject({ status: 1, out: '' });
    expect(barred.err).toContain('retail.yaml:6:13: error CG621: `127.0.0.1`, where `retail` is, is an address of this machine');
    vi.stubEnv('CALLGATE_UPSTREAM_ALLOW_PRIVATE', 'retail');
    expect(await run(retailFolder)).toMatchObject({ status: 0, err: '' });
    vi.stubEnv('NODE_ENV', '');
    vi.stubEnv('CALLGATE_UPSTREAM_ALLOW_PRIVATE', 'other');
    expect(JSON.parse((await run(retailFolder, '--format', 'json')).out)).toMatchObject([{ code: 'CG621', severity: 'error', line: 6, column: 13 }]);
  });

  test('is a usage error for a format that does not exist', async () => {
    await expect(run(retailFolder, '--format', 'xml')).rejects.toThrow(UsageError);
  });
});

describe('a policy that Cedar cannot read', () => {
  test('CG503: is an error at its own line, beside the warnings of the contracts', async () => {
    const { dir } = mutated(...unbounded);
    mkdirSync(join(dir, 'policies'), { recursive: true });
    writeFileSync(join(dir, 'policies', 'retail.cedar'), '\n\npermit (principal, action, resource) whenever { true };\n');
    const { status, out } = await run(dir, '--format', 'json');
    const found = JSON.parse(out) as Diagnostic[];
    expect(status).toBe(1);
    expect(found.map(({ code }) => code)).toEqual(['CG503', 'CG616']);
    expect(found[0]).toMatchObject({ file: expect.stringMatching(/policies\/retail\.cedar$/), line: 3, severity: 'error' });
  });
});

describe('machine formats', () => {
  const { dir } = folderWith(retailText.replace(...unbounded).replace('args.amount <= order.refundable', 'args.amount <= order.refundible'));

  test('json is an array with exactly the published members, and an empty one for a clean folder', async () => {
    const { status, out, err } = await run(dir, '--format', 'json');
    const found = JSON.parse(out) as Diagnostic[];
    expect([status, err]).toEqual([1, '']);
    expect(found.map(({ code, severity }) => [code, severity])).toEqual(expect.arrayContaining([['CG101', 'error'], ['CG616', 'warning']]));
    for (const one of found) expect(Object.keys(one).sort()).toEqual(['code', 'column', 'file', 'help', 'line', 'message', 'severity']);
    expect(await run(retailFolder, '--format', 'json')).toEqual({ status: 0, out: '[]', err: '' });
  });

  test('files are named from where the command runs, so that they can be opened', async () => {
    const first = (JSON.parse((await run(dir, '--format', 'json')).out) as Diagnostic[]).find(({ code }) => code === 'CG101');
    expect(first!.file).toBe(relative(process.cwd(), join(dir, 'retail.yaml')));
    expect(readFileSync(first!.file, 'utf8').split('\n')[first!.line - 1]).toContain('refundible');
  });

  test('sarif is a 2.1.0 log: every result has a rule, a level and a place', async () => {
    const { out } = await run(dir, '--format', 'sarif');
    const log = JSON.parse(out);
    expect(log).toMatchObject({ version: '2.1.0', runs: [{ tool: { driver: { name: 'callgate', version } } }] });
    const [{ results, tool }] = log.runs;
    expect(results.length).toBeGreaterThan(1);
    for (const { ruleId, ruleIndex, level, message, locations } of results) {
      const { id, help, defaultConfiguration } = tool.driver.rules[ruleIndex];
      expect([id, defaultConfiguration.level]).toEqual([ruleId, level]);
      expect(help.text + message.text).not.toMatch(/undefined/);
      expect(['error', 'warning']).toContain(level);
      const [{ physicalLocation }] = locations;
      expect(physicalLocation.region.startLine).toBeGreaterThan(0);
      expect(physicalLocation.region.startColumn).toBeGreaterThan(0);
      expect(decodeURIComponent(physicalLocation.artifactLocation.uri)).toMatch(/retail\.yaml$/);
    }
  });
});
