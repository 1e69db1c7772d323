/** Slices of load on one system, weighed from outside. */
import { weigh, weighMachine } from './processes.mjs';
import { readStages, stagesBetween } from './stages.mjs';

const enoughCalls = 10_000;
const stillFalling = 0.97;
const againSeconds = 0.25;

/**
 * The calls that are settled before slices of duplicates send them again and again; `-wide`: more than a gateway holds in memory, and too many for one to come again
 * within the second for which it does, so that each of them is looked up.
 */
const settledCalls = {
  duplicate: () => ({ prefix: '1', keys: 300 }),
  'duplicate-wide': (seconds) => ({ prefix: '2', keys: Math.min(20_000, Math.ceil(5_000 * seconds)) }),
};
export const repeats = (kind) => kind in settledCalls;

export function measuring(house) {
  let slice = 0;
  // Fixed width after a number of the slice's own, so that no two slices name one order.
  const jobOf = (system, request, clients, seconds, more = {}) => ({
    urls: system.urls, ...system.requests[request], clients, seconds, prefix: `${++slice + 100}`, first: 1_000_000, ...more,
  });
  const known = (kind, seconds) => (repeats(kind) ? settledCalls[kind](seconds) : {});

  /** @returns what the load generator saw, with CPU by process, memory and, of a gateway, where the time went. */
  async function measure(system, kind, clients, seconds) {
    const weights = () => [...(system.pids ?? [system.pid]), system.engine, house.postgres.pid, house.upstream.pid].map((pid) => weigh(pid, pid === house.postgres.pid)).concat(weighMachine());
    const stages = () => (system.controlUrl ? readStages(system.controlUrl) : null);
    // Not counted: connections that were closed while others had their turn are opened again.
    await house.load.run(jobOf(system, kind, clients, Math.min(againSeconds, seconds), known(kind, seconds)));
    const [stagesBefore, before] = [await stages(), weights()];
    const result = await house.load.run(jobOf(system, kind, clients, seconds, known(kind, seconds)));
    const [after, stagesAfter] = [weights(), await stages()];
    system.mustLive();
    return {
      ...result, ...used(system, house, before, after, result),
      ...(stagesBefore && result.calls > 0 ? { stages: stagesBetween(stagesBefore, stagesAfter, result.calls) } : {}),
    };
  }

  return {
    measure,
    /** Settles the calls that slices of so many seconds send again. @throws Error when one was answered wrongly */
    async settle(system, kind, seconds) {
      const calls = known(kind, seconds);
      const { errors, firstError } = await house.load.run(jobOf(system, 'write', 16, 300, { ...calls, calls: calls.keys }));
      if (errors > 0) throw new Error(`${system.name} did not settle what is to be sent again: ${firstError}`);
    },
    /** Until V8 has compiled, which is when CPU per call has stopped falling after enough calls; at most so many seconds. */
    async warm(system, kind, seconds) {
      const costs = [];
      let calls = 0;
      for (let spent = 0; spent < seconds; spent++) {
        const slice = await measure(system, kind, 64, Math.min(1, seconds));
        calls += slice.calls;
        const cost = slice.cpuMs?.gateway ?? 1;
        if (calls >= enoughCalls && costs.length >= 2 && cost >= stillFalling * Math.min(...costs.slice(-2))) break;
        costs.push(cost);
      }
    },
  };
}

/** CPU milliseconds per call by process, what else kept the machine busy, and the memory of the system under test, with an engine of its own if it has one. */
function used(system, house, before, after, { calls, cpuSeconds, seconds }) {
  const spent = before.map((then, i) => {
    const now = after[i];
    return then === null || now === null ? null : typeof now === 'number' ? now - then : now.cpuSeconds - then.cpuSeconds;
  });
  if (spent.includes(null)) return { cpuMs: null, foreignCores: null, rssBytes: null };
  const [machine, upstream, postgres, engine] = spent.toReversed();
  const own = system.name === 'upstream' ? 0 : sum(spent.slice(0, -4));
  const per = (cpu) => (calls === 0 ? null : (cpu / calls) * 1000);
  const ofItsOwn = system.engine !== house.postgres.pid;
  const others = machine - own - upstream - postgres - cpuSeconds - (ofItsOwn ? engine : 0);
  return {
    cpuMs: { gateway: per(own), engine: per(engine), upstream: per(upstream), load: per(cpuSeconds) },
    foreignCores: Math.max(0, others / seconds), rssBytes: sum(after.slice(0, ofItsOwn ? -3 : -4).map(({ rssBytes }) => rssBytes)),
  };
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
