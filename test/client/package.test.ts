import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectFile } from '../../src/project.js';
import { executed, scriptedGateway } from './scripted-gateway.js';

const tsc = projectFile('node_modules', 'typescript', 'bin', 'tsc');
const folder = mkdtempSync(join(tmpdir(), 'callgate-client-'));
afterAll(() => rmSync(folder, { recursive: true }));

const program = `
import { Callgate, CallgateError, type Answer } from 'callgate/client';
const gate = new Callgate({ url: process.argv[2] as string, key: 'cg_key' });
const answer: Answer<{ receipt_id: string }> = await gate.call({ session_id: 's', tool: 't', arguments: {} });
if (answer.disposition === 'executed') console.log(answer.result?.receipt_id, CallgateError.name);
`;

/** Whoever uses the client installs it into something that is not this project; what works only in here works for nobody. */
describe('the package', () => {
  beforeAll(() => {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'host', private: true, type: 'module' }));
    execFileSync('npm', ['pack', '--pack-destination', folder], { cwd: projectFile('client'), stdio: 'pipe' });
    const [tarball] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
    // offline: it has no dependencies, so there is nothing to fetch
    execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', join(folder, tarball as string)], { cwd: folder, stdio: 'pipe' });
  }, 120_000);

  it('installs into an empty folder, brings nothing else, and works', async () => {
    expect(readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual(['callgate']);
    const server = await scriptedGateway({ body: executed });
    writeFileSync(join(folder, 'run.mjs'), program.replaceAll(/, type Answer|: Answer<.*?>(?= =)| as string/g, ''));
    expect(await ran(join(folder, 'run.mjs'), server.url)).toBe('CR-1 CallgateError\n');
  });

  it.each(['nodenext', 'bundler'])('has types that stand alone (%s)', (resolution) => {
    writeFileSync(join(folder, 'host.ts'), `${program.replace('process.argv[2] as string', "''")}\n// @ts-expect-error no address\nnew Callgate({ url: 7, key: '' });\n`);
    const options = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false', '--skipDefaultLibCheck', '--lib', 'es2022,dom', '--target', 'es2022',
      '--moduleResolution', resolution, '--module', resolution === 'bundler' ? 'esnext' : 'nodenext'];
    expect(compiled(options)).toBe('');
  }, 120_000);

  it('uses nothing but what browsers and edge runtimes have', () => {
    const dist = join(folder, 'node_modules', 'callgate', 'dist');
    const sources = readdirSync(join(dist, 'client')).filter((name) => name.endsWith('.js')).map((name) => readFileSync(join(dist, 'client', name), 'utf8'));
    expect(sources.length).toBeGreaterThan(5);
    const imported = sources.flatMap((text) => [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map((match) => match[1] as string));
    expect(imported.filter((name) => !name.startsWith('./'))).toEqual([]);
    // Node's own names do not compile in client/tsconfig.json, which has the DOM's types and no others
    expect(JSON.parse(readFileSync(projectFile('client', 'tsconfig.json'), 'utf8'))).toMatchObject({ compilerOptions: { types: [], lib: ['es2022', 'dom'] } });
  });

  it('has the version of the project, which offers the same export', () => {
    const read = (...path: string[]) => JSON.parse(readFileSync(projectFile(...path), 'utf8')) as { name: string; version: string; dependencies?: object; exports: Record<string, { types: string; default: string }> };
    const [own, whole] = [read('client', 'package.json'), read('package.json')];
    expect([own.name, own.version]).toEqual([whole.name, whole.version]);
    expect(own.dependencies).toBeUndefined();
    const { types, default: code } = own.exports['./client'] as { types: string; default: string };
    expect(whole.exports['./client']).toEqual({ types: types.replace('./', './client/'), default: code.replace('./', './client/') });
  });
});

describe('the project packed as a whole', () => {
  it('offers the client too, with none of its dependencies present', async () => {
    const host = join(folder, 'whole');
    mkdirSync(join(host, 'node_modules', 'callgate'), { recursive: true });
    // --ignore-scripts: the client was built just now; compiling everything again shows nothing more
    execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', host], { cwd: projectFile(), stdio: 'pipe' });
    const [tarball] = readdirSync(host).filter((name) => name.endsWith('.tgz'));
    execFileSync('tar', ['-xzf', join(host, tarball as string), '--strip-components=1', '-C', join(host, 'node_modules', 'callgate')]);
    const server = await scriptedGateway({ body: executed });
    writeFileSync(join(host, 'run.mjs'), program.replaceAll(/, type Answer|: Answer<.*?>(?= =)| as string/g, ''));
    expect(await ran(join(host, 'run.mjs'), server.url)).toBe('CR-1 CallgateError\n');
  });
});

/** Not in step: the server that it talks to is in this process. */
async function ran(file: string, url: string): Promise<string> {
  return (await promisify(execFile)(process.execPath, [file, url], { encoding: 'utf8' })).stdout;
}

function compiled(options: string[]): string {
  try {
    return execFileSync(process.execPath, [tsc, ...options, 'host.ts'], { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}
