import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { raw } from './raw-client.js';

const source = join(import.meta.dirname, '../../examples/retail/service');
let built = '';

beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), 'retail-'));
  await writeFile(join(built, 'package.json'), '{"type":"module"}');
  for (const file of (await readdir(source)).filter((name) => name.endsWith('.ts'))) {
    const { outputText } = ts.transpileModule(await readFile(join(source, file), 'utf8'), {
      compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext },
    });
    await writeFile(join(built, file.replace(/\.ts$/, '.js')), outputText);
  }
});
afterAll(() => rm(built, { recursive: true }));

function run(env: Record<string, string>) {
  return spawn(process.execPath, [join(built, 'main.js')], { env: { PATH: process.env.PATH ?? '', ...env } });
}

describe('the service as a process', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)('%s ends it with 0, though a client waits for a delayed commit', async (signal) => {
    const child = run({ PORT: '0', RETAIL_TOKEN: 'secret' });
    try {
      const [line] = await once(createInterface(child.stdout), 'line') as [string];
      const url = /http:\S+/.exec(line)?.[0] ?? '';
      expect((await raw(url, '/orders/O-417')).status).toBe(401);
      await raw(url, '/_faults', { method: 'POST', body: { tool: 'get_order', kind: 'delay_commit', ms: 60_000 } });
      const hanging = raw(url, '/orders/O-417', { headers: { authorization: 'Bearer secret' } });
      await expect.poll(async () => JSON.parse((await raw(url, '/_books')).text).requests['GET /orders/{id}']).toBe(2);
      child.kill(signal);
      expect(await once(child, 'exit')).toEqual([0, null]);
      expect((await hanging).bytes).toBe(0);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('a PORT that is none is refused in words', async () => {
    const child = run({ PORT: '80a' });
    const [said] = await once(child.stderr, 'data') as [Buffer];
    expect(said.toString()).toContain('PORT is `80a`');
    expect(await once(child, 'exit')).toEqual([1, null]);
  });
});
