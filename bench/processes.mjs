/** Processes of the benchmark: started, listened to, weighed from outside, ended. */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';

const ticksPerSecond = 100;
const startMs = 20_000;
const stopMs = 10_000;

/** Nothing of the caller's own settings reaches what is measured. */
export const plainEnv = { PATH: process.env.PATH, NODE_ENV: 'production' };

/** @returns `{pid, url, stop, mustLive}` once the process has said, on stdout or stderr, where it can be reached. */
export async function start(name, command, env) {
  const child = spawn(command[0], command.slice(1), { env: { ...plainEnv, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${name} did not start:\n${said}`)), startMs);
    const listen = (chunk) => {
      said = (said + chunk).slice(-4000);
      const found = /(?:listening on|agents at) (http:\S+)/.exec(said)?.[1];
      if (!found) return;
      clearTimeout(timer);
      resolve(found);
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    child.once('exit', () => reject(new Error(`${name} ended before it listened:\n${said}`)));
  });
  return {
    pid: child.pid, url, stop: () => stop(child),
    /** @throws Error with its last words when it has ended. */
    mustLive() {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${name} ended (${child.exitCode ?? child.signalCode}):\n${said}`);
    },
  };
}

async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const timer = setTimeout(() => child.kill('SIGKILL'), stopMs);
  child.kill('SIGTERM');
  await once(child, 'exit');
  clearTimeout(timer);
}

/** The load generator keeps its process, and so its compiled code, from cell to cell. */
export function startLoad(file) {
  const child = fork(file);
  let answered = () => undefined;
  let ended = () => undefined;
  child.on('message', (message) => answered(message));
  child.once('exit', () => ended(new Error('the load generator ended')));
  return {
    run: (job) => new Promise((resolve, reject) => {
      [answered, ended] = [resolve, reject];
      child.send(job);
    }),
    stop: () => stop(child),
  };
}

/** CPU seconds and resident bytes so far, of a process or, for a postmaster, of it and its backends. Null where there is no /proc. */
export function weigh(pid, withChildren = false) {
  try {
    const own = readStat(pid);
    if (!withChildren) return own;
    const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map((name) => readStatOrNull(name)).filter((stat) => stat?.parent === pid);
    return { cpuSeconds: sum([own, ...children], 'cpuSeconds'), rssBytes: sum([own, ...children], 'rssBytes') };
  } catch {
    return null;
  }
}

/** Of the whole machine: busy seconds of all cores. Null where there is no /proc. */
export function weighMachine() {
  try {
    const [user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'latin1').split('\n')[0].split(/\s+/).slice(1).map(Number);
    return (user + nice + system + irq + softirq + steal) / ticksPerSecond;
  } catch {
    return null;
  }
}

function readStatOrNull(pid) {
  try {
    return readStat(pid);
  } catch {
    return null;
  }
}

function readStat(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(fields[1]), cpuSeconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond, rssBytes: Number(fields[21]) * 4096 };
}

const sum = (items, member) => items.reduce((total, item) => total + item[member], 0);
