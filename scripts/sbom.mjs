/**
 * npm run sbom: what runs, as CycloneDX on standard output. `npm sbom --omit dev` leaves out a package that a development package needs as well
 * (npm 11.19), so it is shown a lock in which there are none.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const read = (name) => JSON.parse(readFileSync(fileURLToPath(new URL(`../${name}`, import.meta.url)), 'utf8'));
const { devDependencies: _, scripts: __, ...manifest } = read('package.json');
const lock = read('package-lock.json');
const { devDependencies: ___, ...root } = lock.packages[''];
const shipped = Object.fromEntries(Object.entries(lock.packages).filter(([path, { dev, link }]) => path !== '' && !dev && !link));

const folder = mkdtempSync(join(tmpdir(), 'callgate-sbom-'));
try {
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify({ ...lock, packages: { '': root, ...shipped } }));
  process.stdout.write(execFileSync('npm', ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx', '--sbom-type', 'application'], { cwd: folder, maxBuffer: 32 * 1024 * 1024 }));
} finally {
  rmSync(folder, { recursive: true });
}
