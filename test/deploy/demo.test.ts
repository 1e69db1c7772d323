import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { checkBooks } from '../../examples/retail/demo/play.js';
import { projectFile } from '../../src/project.js';

const run = promisify(execFile);
const credit = (receipt_id: string) => ({ order_id: 'O-417', amount: 2500, key: receipt_id, receipt_id });

/** The demonstration is the first thing that a newcomer sees; if it tells what the books do not bear out, it lies. */
describe('the demonstration', () => {
  it('pays twice without Callgate and once with it, by the shop’s own books, and leaves nothing behind', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-'));
    // a caller's own configuration must not reach it
    const env = { ...process.env, TMPDIR: folder, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing', CALLGATE_AGENT_PORT: '1' };
    const { stdout } = await run(process.execPath, [projectFile('bin', 'callgate.mjs'), 'demo'], { env, timeout: 60_000 });

    const [, naive = '', gated = ''] = stdout.split(/^\d\. WITH.*$/m);
    const receipts = (scene: string): string[] => [...scene.matchAll(/^ +credit +25\.00 +order O-417 +receipt (\S+)$/gm)].map((match) => match[1] as string);
    expect(receipts(naive)).toHaveLength(2);
    expect(new Set(receipts(naive)).size).toBe(2);
    expect(receipts(gated)).toHaveLength(1);
    expect(gated).toMatch(/Answer to the agent: executed, outcome committed, verified/);
    expect(gated).toMatch(/Answer to the agent: replayed, outcome committed, verified/);
    expect(gated).toMatch(/attempt 1 +reset; so its outcome was unknown/);
    expect(stdout).not.toContain('undefined');
    expect(readdirSync(folder)).toEqual([]);
    rmSync(folder, { recursive: true });
  }, 70_000);

  it('fails when the books do not show two credits and one', () => {
    const one = [credit('a')];
    const two = [credit('a'), credit('b')];
    expect(() => checkBooks(two, one)).not.toThrow();
    expect(() => checkBooks(one, one)).toThrow(/they show 1 and 1/);
    expect(() => checkBooks(two, two)).toThrow(/they show 2 and 2/);
    expect(() => checkBooks(two, [])).toThrow(/they show 2 and 0/);
  });
});
