/** `callgate compile` and `callgate docs`: what is published is measured before it is published. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { validate } from '@cedar-policy/cedar-wasm/nodejs';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { compile } from '../../../src/cli/compile.js';
import { docs } from '../../../src/cli/docs.js';
import { compileSource } from '../../../src/contract/compile.js';
import { dialects } from '../../../src/contract/views/dialects.js';
import { catalogueOf, mutated, retailFolder } from '../fixture.js';

let said: string[];
beforeEach(() => {
  said = [];
  for (const channel of ['log', 'error'] as const) vi.spyOn(console, channel).mockImplementation((text: string) => void said.push(text));
});
afterEach(() => vi.restoreAllMocks());

const newFolder = (): string => join(mkdtempSync(join(tmpdir(), 'callgate-views-')), 'out');
const json = (...path: string[]): unknown => JSON.parse(readFileSync(join(...path), 'utf8'));

/** A catalogue of many pure reads, as an importer that takes everything would give. */
function manyTools(count: number): string {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-many-'));
  const none = { type: 'object', properties: {} };
  const tool = (index: number) => ({ version: '1.0.0', effect: 'none', purpose: `Read number ${index}.`, args: none, result: none, http: { method: 'GET', path: `/r${index}` } });
  const tools = Object.fromEntries([...Array(count).keys()].map((index) => [`op_${index}`, tool(index)]));
  writeFileSync(join(dir, 'many.json'), JSON.stringify({ callgate: 1, service: 'many', upstream: { base_url: 'http://127.0.0.1:1' }, tools }));
  return dir;
}

describe('callgate compile', () => {
  test('writes every view under the digest of the catalogue, and a source that compiles to it again', async () => {
    const out = newFolder();
    expect(await compile([retailFolder, '--out', out])).toBe(0);
    const { digest } = json(out, 'catalogue.json') as { digest: string };
    expect(readdirSync(join(out, 'model')).sort()).toEqual(dialects.map((dialect) => `${dialect}.json`).sort());
    for (const dialect of dialects) expect(json(out, 'model', `${dialect}.json`)).toMatchObject({ digest, dialect, projection: { tools: 7, excluded: [] } });
    expect(json(out, 'evaluator.json')).toMatchObject({ digest });
    const schema = json(out, 'policies.cedarschema.json') as never;
    const policies = { staticPolicies: readFileSync(join(retailFolder, 'policies/retail.cedar'), 'utf8') };
    expect(validate({ validationSettings: { mode: 'strict' }, schema, policies })).toMatchObject({ type: 'success', validationErrors: [], validationWarnings: [] });
    expect(catalogueOf(compileSource(readFileSync(join(out, 'source.json'), 'utf8'), {})).digest).toBe(digest);
    for (const dialect of dialects) expect(said.join('\n')).toMatch(new RegExp(`^${dialect} +7 `, 'm'));
  });

  test('only measures without a folder to write to', async () => {
    expect(await compile([retailFolder])).toBe(0);
    expect(said.join('\n')).toContain('tokens (est.)');
  });

  test('case-60: a catalogue over a provider’s limit fails here, not at its first request, unless the limit is set otherwise', async () => {
    const folder = manyTools(300);
    expect(await compile([folder])).toBe(1);
    expect(said.join('\n')).toContain('error CG620: catalogue_too_large: the view for `openai-chat` has 300 tools, and 128 are the most');
    expect(await compile([folder, ...['openai-chat', 'openai-responses', 'gemini'].flatMap((dialect) => ['--limit', `${dialect}=none`])])).toBe(0);
    expect(await compile([folder, '--limit', 'mcp=299', ...['openai-chat', 'openai-responses', 'gemini'].flatMap((dialect) => ['--limit', `${dialect}=300`])])).toBe(1);
    expect(said.at(-1)).toContain('the view for `mcp` has 300 tools, and 299 are the most');
  });

  test('case-60: bytes and estimated tokens of a view are held to a limit as well, each told by itself', async () => {
    expect(await compile([retailFolder, '--limit', 'anthropic.tokens=100', '--limit', 'anthropic.bytes=1000'])).toBe(1);
    expect(said.at(-1)).toMatch(/the view for `anthropic` has \d+ bytes, and 1000 are the most[\s\S]*the view for `anthropic` has \d+ tokens, and 100 are the most/);
    expect(await compile([retailFolder, '--limit', 'anthropic.tokens=100000'])).toBe(0);
  });

  test('says everything that is wrong with contracts that do not compile, and writes nothing', async () => {
    const out = newFolder();
    expect(await compile([mutated('order.refundable\n', 'order.refundabel\n').dir, '--out', out])).toBe(1);
    expect(said.join('\n')).toContain('CG101');
    expect(existsSync(out)).toBe(false);
  });

  test('reads its options strictly', async () => {
    for (const limit of ['openai=1', 'mcp.tokens', 'mcp.words=3', 'mcp=0', 'mcp=-1', 'mcp=many', '', 'mcp=1 mcp=2']) await expect(compile([retailFolder, '--limit', limit]), limit).rejects.toThrow('DIALECT=COUNT');
    await expect(compile([retailFolder, '--lmit', 'mcp=1'])).rejects.toThrow('lmit');
  });
});

describe('callgate docs', () => {
  test('writes a page for each service', async () => {
    const out = newFolder();
    expect(await docs([retailFolder, '--out', out])).toBe(0);
    expect(readdirSync(out).sort()).toEqual(['README.md', 'retail.md']);
    expect(readFileSync(join(out, 'retail.md'), 'utf8')).toMatch(/^# retail\n/);
  });

  test('needs to be told where', async () => {
    await expect(docs([retailFolder])).rejects.toThrow('--out');
  });
});
