/** What is shipped is known: each package with its version and hash, none of them open to a later version, under licences that a company can take. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { projectFile } from '../../src/project.js';

interface Component { name: string; version: string; purl: string; hashes?: { alg: string; content: string }[]; licenses?: { license?: { id?: string; name?: string }; expression?: string }[] }
interface Locked { version: string; integrity?: string; dev?: boolean; optional?: boolean; link?: boolean }

const taken = new Set(['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0', 'PostgreSQL', 'Unlicense', 'CC0-1.0']);
const lock = JSON.parse(readFileSync(projectFile('package-lock.json'), 'utf8')) as { packages: Record<string, Locked> };
const shipped = Object.entries(lock.packages).filter(([path, { dev, link }]) => path !== '' && !dev && !link);

it('the bill of materials has every package that runs, and no other', () => {
  const { components } = JSON.parse(execFileSync('npm', ['run', '--silent', 'sbom'], { cwd: projectFile(), encoding: 'utf8', maxBuffer: 32 * 1024 * 1024 })) as { components: Component[] };
  const told = new Set(components.map(({ name, version }) => `${name}@${version}`));
  const nameOf = (path: string): string => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  for (const [path, { version, optional }] of shipped) if (!optional) expect(told, path).toContain(`${nameOf(path)}@${version}`);
  const known = new Set(shipped.map(([path, { version }]) => `${nameOf(path)}@${version}`));
  for (const one of told) expect(known).toContain(one);
  expect(told.size).toBeGreaterThan(20);
  for (const { name, purl, licenses = [] } of components) {
    expect(purl, name).toMatch(/^pkg:npm\//);
    const ids = licenses.flatMap(({ license, expression }) => [license?.id ?? license?.name ?? expression ?? '']);
    expect(ids.length, name).toBeGreaterThan(0);
    for (const id of ids) expect(taken, `${name} is under ${id}`).toContain(id);
  }
});

it('every package is pinned by its hash', () => {
  for (const [path, { integrity }] of shipped) expect([path, integrity?.slice(0, 7)]).toEqual([path, 'sha512-']);
});
