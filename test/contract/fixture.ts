import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compileFolder, type CompileResult } from '../../src/contract/compile.js';
import type { Catalogue, ToolPlan } from '../../src/contract/plan.js';

export const retailFolder = fileURLToPath(new URL('../../examples/retail/contracts', import.meta.url));
export const retailText = readFileSync(join(retailFolder, 'retail.yaml'), 'utf8');

/** The retail contracts with one passage replaced, in a folder of their own. */
export function mutated(from: string, to: string): { dir: string; text: string } {
  const parts = retailText.split(from);
  if (parts.length < 2) throw new Error(`the example no longer holds \`${from}\``);
  return folderWith(`${parts[0]}${to}${parts.slice(1).join(from)}`);
}

export function folderWith(text: string): { dir: string; text: string } {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-contract-'));
  cpSync(retailFolder, dir, { recursive: true });
  writeFileSync(join(dir, 'retail.yaml'), text);
  return { dir, text };
}

export function catalogueOf(result: CompileResult): Catalogue {
  if ('diagnostics' in result)
    throw new Error(result.diagnostics.map(({ line, code, message }) => `${line} ${code} ${message}`).join('\n'));
  return result.catalogue;
}

export function retailTool(name: string): ToolPlan {
  return catalogueOf(compileFolder(retailFolder, {})).tools.get(name)!;
}
