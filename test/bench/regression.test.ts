/**
 * Keeps the gateway from growing dearer unseen, on machines of any speed: CPU per call against the floor's in the same run, never a time. CPU per call is
 * steadier than rates and percentiles where others keep the machine busy; the least of the rounds counts, because noise only adds. The limits lie above what
 * was seen on machines between idle and three times over-committed; lower them when the gateway becomes cheaper.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { projectFile } from '../../src/project.js';

const limits = { gateway: 11, postgres: 5, guard: 1 };

interface Slice { system: string; calls: number; errors: number; cpuMs: { gateway: number; engine: number } }

test('the CPU of a write, of its commits and of its guard stay within their ratio to the floor', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'callgate-regression-'));
  try {
    const file = join(folder, 'result.json');
    const options = ['--only', 'naive,callgate', '--kinds', 'write,guard', '--clients', '64', '--seconds', '1.2', '--rounds', '2', '--warm', '6', '--json', file];
    // Whether the bars of the short run are met says nothing: its exit code does not count.
    await promisify(execFile)(process.execPath, [projectFile('bench', 'run.mjs'), ...options]).catch(() => undefined);
    const { slices, guard } = JSON.parse(await readFile(file, 'utf8')) as { slices: Slice[]; guard: { cpuMs: { p50: number } } };
    const least = (system: string, part: 'gateway' | 'engine'): number => Math.min(...slices.filter((slice) => slice.system === system).map(({ cpuMs }) => cpuMs[part]));
    const ratios = {
      gateway: least('callgate', 'gateway') / least('naive', 'gateway'), postgres: least('callgate', 'engine') / least('naive', 'engine'), guard: guard.cpuMs.p50 / least('naive', 'gateway'),
    };
    console.log(`CPU per call to that of the naive floor: ${Object.entries(ratios).map(([part, ratio]) => `${part} ${ratio.toFixed(2)}`).join(', ')}`);
    for (const { system, calls, errors } of slices) expect({ system, errors, enough: calls > 100 }).toEqual({ system, errors: 0, enough: true });
    for (const [part, ratio] of Object.entries(ratios)) expect(ratio, part).toBeLessThan(limits[part as keyof typeof limits]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 240_000);
