/** Two replicas on one database against one of them, in turn (bar 8). Ends both. */
import { ask } from './database.mjs';
import { openGateway } from './systems.mjs';

const clients = 64;

/** @returns `{slices, aborted: {alone, together}}`: slices of both systems, and transactions that were aborted per 1,000 calls, with one replica running and with two. */
export async function measureReplicas(house, measuring, { warmSeconds, seconds, rounds }) {
  const one = house.systems.find(({ name }) => name === 'callgate');
  const transactions = async () => {
    const [row] = await ask(one.tenant.databaseUrl, `select xact_rollback::float8 as aborted, (select count(*)::float8 from operations) as calls from pg_stat_database where datname = current_database()`);
    return row;
  };
  const aborted = (from, to) => (1000 * (to.aborted - from.aborted)) / Math.max(1, to.calls - from.calls);

  await measuring.warm(one, 'write', warmSeconds);
  const alone = await transactions();
  const second = await openGateway(house, one.tenant);
  const both = { ...one, name: 'two-replicas', urls: [one.url, second.url], pids: [one.pid, second.pid], controlUrl: null, mustLive: () => [one, second].forEach((each) => each.mustLive()) };
  await measuring.warm({ ...both, urls: [second.url], pids: [second.pid] }, 'write', warmSeconds);
  const slices = [];
  for (let round = 1; round <= rounds; round++) for (const system of [one, both]) {
    slices.push({ system: system === one ? 'one-replica' : 'two-replicas', kind: 'replicas', clients, round, ...(await measuring.measure(system, 'write', clients, seconds)) });
  }
  await Promise.all([one.stop(), second.stop()]); // a backend tells Postgres what it did when it ends, and before that with a delay
  const together = await transactions();
  return { slices, aborted: { alone: aborted({ aborted: 0, calls: 0 }, alone), together: aborted(alone, together) } };
}
