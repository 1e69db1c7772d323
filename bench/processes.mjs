/** Processes of the benchmark: started, listened to, weighed from outside, ended. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { spawnBound } from '../dist/src/embedded/bound-process.js';

const ticksPerSecond = 100;
const startMs = 60_000;
const stopMs = 10_000;
const pollMs = 100;

/** Nothing of the caller's own settings reaches what is measured. */
export const plainEnv = { PATH: process.env.PATH, NODE_ENV: 'production' };

/**
 * @param silent `{url, isUp}` of a program that does not say where it can be reached
 * @returns `{pid, url, controlUrl, stop, kill, mustLive}` once the process can be reached; only a gateway has a `controlUrl`. It does not outlive this one, however this one ends.
 */
export async function start(name, command, env, silent = null) {
  const said = [];
  let ended = null;
  let reach = () => undefined;
  const reached = new Promise((resolve) => { reach = resolve; });
  const child = await spawnBound(command, {
    farewell: 'KILL', env: { ...plainEnv, ...env },
    onLine(line) {
      if (said.push(line) > 40) said.shift();
      const found = /(?:listening on|agents at) (http:\S+)(?: and people at (http:\S+))?/.exec(line);
      if (found) reach({ url: found[1], controlUrl: found[2] });
    },
  });
  void child.ended.then((how) => { ended = how; });
  const up = async () => {
    while (ended === null && !(await silent.isUp())) await delay(pollMs);
    reach({ url: silent.url });
  };
  if (silent) void up();
  const stop = async () => {
    const timer = setTimeout(() => child.signal('SIGKILL'), stopMs);
    if (ended === null) child.signal('SIGTERM');
    await child.ended;
    clearTimeout(timer);
  };
  const where = await Promise.race([reached, child.ended, delay(startMs, undefined, { ref: false })]);
  if (!where?.url) {
    await stop();
    throw new Error(`${name} did not start (${where ?? 'too slow'}):\n${said.join('\n')}`);
  }
  return {
    pid: child.pid, ...where, stop,
    /** At once, whatever it is doing. */
    async kill() {
      child.signal('SIGKILL');
      await child.ended;
    },
    /** @throws Error with its last words when it has ended. */
    mustLive() {
      if (ended !== null) throw new Error(`${name} ended (${ended}):\n${said.join('\n')}`);
    },
  };
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
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

/** CPU seconds and resident bytes so far, of a process or, for a postmaster, of it and its backends. Null where there is no /proc. */
export function weigh(pid, withChildren = false) {
  try {
    const own = readStat(pid);
    if (!withChildren) return own;
    // A backend that has ended is counted with its postmaster, which has waited for it.
    const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map((name) => readStatOrNull(name)).filter((stat) => stat?.parent === pid);
    return { cpuSeconds: own.endedCpuSeconds + sum([own, ...children], 'cpuSeconds'), rssBytes: sum([own, ...children], 'rssBytes') };
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
  const cpu = (n) => (Number(fields[n]) + Number(fields[n + 1])) / ticksPerSecond;
  return { parent: Number(fields[1]), cpuSeconds: cpu(11), endedCpuSeconds: cpu(13), rssBytes: Number(fields[21]) * 4096 };
}

const sum = (items, member) => items.reduce((total, item) => total + item[member], 0);
