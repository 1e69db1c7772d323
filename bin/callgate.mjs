#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const built = new URL('../dist/src/cli/callgate.js', import.meta.url);
if (!existsSync(fileURLToPath(built))) {
  console.error('callgate is not built yet. Run `npm run build` first, or `npm start`, which does it.');
  process.exit(1);
}
await import(built.href);
