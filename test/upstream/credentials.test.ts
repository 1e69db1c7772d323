/** The gateway holds the credential of every tool: a stale one stops a service, and one that is told opens it to whoever reads it. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { UpstreamPlan } from '../../src/contract/plan.js';
import { type Credentials, openCredentials } from '../../src/upstream/credentials.js';

const auth = (from: 'env' | 'file' | 'command', name: string, prefix = ''): NonNullable<UpstreamPlan['auth']> => ({ header: 'authorization', source: { from, name }, prefix });
const keptMs = 1000;

let folder: string;
let env: Record<string, string>;
const clock = { ms: 0 };
let credentials: Credentials;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'callgate-credentials-'));
  env = { PATH: process.env['PATH'] ?? '', TOKEN: 'from-env', CALLGATE_SECRETS_SEAL_KEY: 'ours', DATABASE_URL: 'postgres://ours' };
  clock.ms = 0;
  credentials = openCredentials({ env, secretsFolder: folder, commandsFolder: folder, keptMs, now: () => clock.ms });
});
afterEach(() => rmSync(folder, { recursive: true }));

const read = (given: NonNullable<UpstreamPlan['auth']>, service = 'retail') => credentials.read(service, given);
function command(name: string, script: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
  chmodSync(join(folder, name), 0o755);
}
/** Each run is counted in a file, and says which it was. */
const counting = (more = ''): string => `echo run >> "${join(folder, 'runs')}"\n${more}\necho "t$(wc -l < "${join(folder, 'runs')}" | tr -d ' ')"`;
const runs = (): number => (existsSync(join(folder, 'runs')) ? readFileSync(join(folder, 'runs'), 'utf8').split('\n').length - 1 : 0);

describe('a variable or a file', () => {
  it('is read at each send, with its prefix', () => {
    expect(read(auth('env', 'TOKEN', 'Bearer '))).toBe('Bearer from-env');
    env['TOKEN'] = 'rotated';
    expect(read(auth('env', 'TOKEN'))).toBe('rotated');
    writeFileSync(join(folder, 'a'), 'one\n');
    symlinkSync(join(folder, 'a'), join(folder, 'retail')); // as Kubernetes mounts them
    expect(read(auth('file', 'retail', 'Basic '))).toBe('Basic one');
    writeFileSync(join(folder, 'a'), 'two');
    expect(read(auth('file', 'retail'))).toBe('two');
  });

  it('is missed in words that do not hold it', () => {
    expect(() => read(auth('env', 'NONE'))).toThrow('`NONE`');
    expect(() => read(auth('file', 'none'))).toThrow('the file `none` in `upstream.secrets_folder`, which holds the credential of the service, is not set, not there or empty');
    for (const bad of ['sec ret', 'sec\r\nx-more: 1', 'secrét', '\0']) {
      writeFileSync(join(folder, 'bad'), bad);
      expect(() => read(auth('file', 'bad'))).toThrow(/^the file `bad` in `upstream.secrets_folder` holds characters that a header cannot carry; let it be the bare credential$/);
    }
    writeFileSync(join(folder, 'bad'), 'x'.repeat(70_000));
    expect(() => read(auth('file', 'bad'))).toThrow('`bad`');
  });
});

describe('a command', () => {
  it('is given the service and nothing of ours, and writes the credential', async () => {
    command('token', 'echo "$1-$TOKEN-$CALLGATE_SECRETS_SEAL_KEY$DATABASE_URL"');
    expect(await read(auth('command', 'token', 'Bearer '))).toBe('Bearer retail-from-env-');
  });

  it('is run once for all who ask, and its output used for its time', async () => {
    command('token', counting('sleep 0.1'));
    expect(await Promise.all([read(auth('command', 'token')), read(auth('command', 'token')), read(auth('command', 'token'))])).toEqual(['t1', 't1', 't1']);
    clock.ms = 799;
    expect(read(auth('command', 'token'))).toBe('t1');
    expect(runs()).toBe(1);
  });

  it('is run again before that time is over, while the old one is still used; and for each service by itself', async () => {
    command('token', counting());
    await read(auth('command', 'token'));
    clock.ms = 900;
    expect(read(auth('command', 'token'))).toBe('t1');
    await expect.poll(() => read(auth('command', 'token'))).toBe('t2');
    expect(await read(auth('command', 'token'), 'mail')).toBe('t3');
  });

  it('is run again at once when the service refused what it gave', async () => {
    command('token', counting());
    await read(auth('command', 'token'));
    credentials.refused('mail', auth('command', 'token'));
    expect(await read(auth('command', 'token'))).toBe('t1');
    credentials.refused('retail', auth('command', 'token'));
    expect(await read(auth('command', 'token'))).toBe('t2');
  });

  it('that fails leaves the last credential in use for its time once more, and then none; and is run again once a second', async () => {
    command('token', counting());
    await read(auth('command', 'token'));
    command('token', 'echo s3cret >&2; exit 3');
    clock.ms = 1_999;
    expect(await read(auth('command', 'token'))).toBe('t1');
    clock.ms = 2_000;
    await expect(read(auth('command', 'token'))).rejects.toThrow(/^the command `token` in `upstream.commands_folder` ended with 3$/);
    command('token', counting());
    clock.ms = 2_500;
    await expect(read(auth('command', 'token'))).rejects.toThrow('ended with 3');
    expect(runs()).toBe(1);
    clock.ms = 3_001;
    expect(await read(auth('command', 'token'))).toBe('t2');
  });

  it('that says too much, nothing, or is not there is none, and a contract cannot make one', async () => {
    command('much', 'yes');
    await expect(read(auth('command', 'much'))).rejects.toThrow('could not be used: ERR_CHILD_PROCESS_STDIO_MAXBUFFER');
    command('nothing', 'true');
    await expect(read(auth('command', 'nothing'))).rejects.toThrow('not there or empty');
    await expect(read(auth('command', 'absent'))).rejects.toThrow('could not be used: ENOENT');
    command('quoted', 'echo "$#:$1"');
    expect(await read(auth('command', 'quoted'), 'a;id')).toBe('1:a;id');
    credentials = openCredentials({ env, secretsFolder: folder, commandsFolder: null, keptMs });
    await expect(read(auth('command', 'much'))).rejects.toThrow('`upstream.commands_folder` is not set');
  });
});
