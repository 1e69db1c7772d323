/**
 * The acceptance command as a person runs it, on all recordings and in all modes. What it must not do is call a run accepted that is not:
 * so it is also given a recording that was tampered with.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { projectFile } from '../../src/project.js';
import { dataFolder, recorded } from './recording.js';

interface Report {
  calls: number;
  accepted: boolean;
  modes: { mode: string; calls: number; kills: number; differences: string[]; points: Record<string, { calls: number; as_they_must_be: number }> }[];
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'callgate-acceptance-test-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function acceptance(...args: string[]): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [projectFile('dist', 'examples', 'tau-retail', 'acceptance', 'main.js'), ...args], { maxBuffer: 64 << 20 },
      (_, stdout, stderr) => resolve({ status: child.exitCode, output: stdout + stderr }));
  });
}

if (recorded) describe('npm run acceptance:tau', () => {
  test('every recorded call is accounted for in every mode, and nothing differs that is not explained', async () => {
    const json = join(folder, 'report.json');
    const { status, output } = await acceptance('--data', dataFolder, '--mode', 'all', '--kills', '0.01', '--json', json);
    expect(status, output).toBe(0);
    const report = JSON.parse(readFileSync(json, 'utf8')) as Report;
    expect(report).toMatchObject({ calls: 1231, accepted: true });
    expect(report.modes.map(({ mode }) => mode)).toEqual(['plain', 'lost-answers', 'triple', 'kill9']);
    for (const { calls, differences, points } of report.modes) {
      expect({ calls, differences }).toEqual({ calls: 1231, differences: [] });
      expect(points).toMatchObject({ 'accepted write': { calls: 204, as_they_must_be: 204 }, 'rejected write': { calls: 22, as_they_must_be: 22 } });
    }
    expect(report.modes.at(-1)?.kills).toBeGreaterThan(0);
  }, 1_200_000);

  test('a recording that tells it otherwise is not accepted, and each difference is named', async () => {
    const lines = readFileSync(join(dataFolder, 'calls.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
    const conversation = (sim: unknown, src: unknown): typeof lines => lines.filter((call) => call['sim'] === sim && call['src'] === src);
    const written = lines.find((call) => call['write'] && !call['rejected']);
    const refused = lines.find((call) => call['write'] && call['rejected'] && written?.['sim'] !== call['sim']);
    const calls = [...conversation(written?.['sim'], written?.['src']), ...conversation(refused?.['sim'], refused?.['src'])];
    const told = calls.map((call) => (call['seq'] === written?.['seq'] && call['sim'] === written?.['sim'] ? { ...call, result: '{"status":"shipped"}' }
      : call['seq'] === refused?.['seq'] && call['sim'] === refused?.['sim'] ? { ...call, rejected: false, error: null, result: '{}' } : call));
    const file = join(folder, 'tampered.jsonl');
    writeFileSync(file, told.map((call) => JSON.stringify(call)).join('\n'));
    const { status, output } = await acceptance('--data', dataFolder, '--calls', file, '--mode', 'plain');
    expect(status, output).toBe(1);
    expect(output).toMatch(/DIFFERENCE .*\(accepted write\): another answer/);
    expect(output).toMatch(/DIFFERENCE .*\(accepted write\): not done/);
    expect(output).toContain('Not accepted.');
  }, 240_000);
});
else test('the recordings are not beside this checkout (../shared/data/tau-retail), so the acceptance command is not run on them', () => {
  expect(recorded).toBe(false);
});

test('what is not there is told with the option that names it', async () => {
  const { status, output } = await acceptance('--data', join(folder, 'nowhere'));
  expect(status).toBe(2);
  expect(output).toContain('--data');
});
