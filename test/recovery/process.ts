/** A gateway as a process of its own that crashes or stops at an exact point (crashing-gateway.mjs). */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { projectFile } from '../../src/project.js';
import { Agent, allowed, type House } from '../support/gateway.js';

export type CrashPoint =
  | 'before_reserve' | 'after_reserve' | 'after_exchange' | 'before_settle' | 'after_settle' | 'after_unknown' | 'after_first_readback' | 'after_resend_intent'
  | 'after_decision' | 'before_decided_send' | 'after_approval' | 'before_dispatch' | 'after_dispatch' | 'never';

export interface Fused {
  process: ChildProcess;
  agent: Agent;
  control(key: string): Agent;
  /** Resolves with the signal or code by which it ended. */
  ended: Promise<string>;
  signal(name: NodeJS.Signals): void;
  /** Resolves once the kernel says that it is stopped. */
  stopped(): Promise<void>;
}

export async function spawnFused(house: House, point: CrashPoint, env: Record<string, string> = {}): Promise<Fused> {
  const child = spawn(process.execPath, [projectFile('test', 'recovery', 'crashing-gateway.mjs')], {
    env: { PATH: process.env['PATH'] ?? '', ...allowed({ ...house.env, ...env }), ...house.env, CRASH_AT: point, ...env }, stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit').then(([code, signal]) => String(signal ?? code));
  let stderr = '';
  const [agentUrl, controlUrl] = await new Promise<[string, string]>((resolve, reject) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr += chunk.toString();
      const urls = /agents at (http:\S+) and people at (http:\S+)/.exec(stderr);
      if (urls) resolve([urls[1] as string, urls[2] as string]);
    });
    void ended.then((how) => reject(new Error(`it ended (${how}) before it served: ${stderr}`)));
  });
  return {
    process: child, agent: new Agent(agentUrl, house.keys.agent), control: (key) => new Agent(controlUrl, key), ended,
    signal: (name) => void child.kill(name),
    stopped: () => until(() => stateOf(child.pid as number) === 'T', 10_000),
  };
}

function stateOf(pid: number): string {
  return /^\d+ \(.*\) (\S)/.exec(readProc(pid))?.[1] ?? '';
}

function readProc(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}

/** @throws Error when it has not come true in time. */
export async function until(isSo: () => boolean | Promise<boolean>, ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${isSo}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
