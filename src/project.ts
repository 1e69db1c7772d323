/** Where the project's own files are, from source and from the build alike, and which version this is. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function findRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error('package.json of Callgate was not found above its own code: reinstall it');
    folder = parent;
  }
  return folder;
}

const root = findRoot();

export function projectFile(...path: string[]): string {
  return join(root, ...path);
}

export const version = (JSON.parse(readFileSync(projectFile('package.json'), 'utf8')) as { version: string }).version;
