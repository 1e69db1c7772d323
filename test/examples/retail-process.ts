/** The service built for a test file and run as processes of their own, which can be killed. */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import ts from 'typescript';
import { afterAll, beforeAll } from 'vitest';

const source = join(import.meta.dirname, '../../examples/retail/service');

export function retailProcesses() {
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
  return {
    /** A folder that lives as long as the test file. */
    get folder() { return built; },
    /** @param limits Words for the shell's `ulimit`, such as `-f 1`. */
    run(env: Record<string, string>, limits?: string): ChildProcessWithoutNullStreams {
      const command = [process.execPath, join(built, 'main.js')];
      const limited = limits === undefined ? command : ['bash', '-c', `ulimit ${limits} && exec "$@"`, 'bash', ...command];
      return spawn(limited[0]!, limited.slice(1), { env: { PATH: process.env.PATH ?? '', ...env } });
    },
  };
}

/** Waits until it listens. */
export async function urlOf(child: ChildProcessWithoutNullStreams): Promise<string> {
  const [line] = await once(createInterface(child.stdout), 'line') as [string];
  return /http:\S+/.exec(line)?.[0] ?? '';
}
