/** The example's contracts with windows short enough for a test, and a gateway's settings to go with them. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectFile } from '../../src/project.js';

export const settleMs = 400;
export const deadlineMs = 700;
export const leaseMs = 1000;
export const sendWindowMs = 500;

const shorter: [string, string][] = [['settle_after: 10s', `settle_after: ${settleMs}ms`], ['deadline: 5s }', `deadline: ${deadlineMs}ms }`]];

/** A copy of the example's contracts with these texts replaced, wherever they stand. @throws Error for a text that is nowhere. */
export function changedContracts(changes: [string, string][] = shorter): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-contracts-'));
  cpSync(projectFile('examples', 'retail', 'contracts'), folder, { recursive: true });
  const file = join(folder, 'retail.yaml');
  let text = readFileSync(file, 'utf8');
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`the contracts no longer say \`${from}\``);
    text = text.replaceAll(from, to);
  }
  writeFileSync(file, text);
  return folder;
}

export function quickContracts(more: [string, string][] = []): string {
  return changedContracts([...shorter, ...more]);
}

export const quickEnv = (more: Record<string, string> = {}): Record<string, string> => ({
  CALLGATE_CONTRACTS_FOLDER: quickContracts(),
  CALLGATE_EXECUTION_LEASE: `${leaseMs}ms`,
  CALLGATE_EXECUTION_SEND_WINDOW: `${sendWindowMs}ms`,
  CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms',
  CALLGATE_EXECUTION_PATIENCE: '3s',
  ...more,
});
