/** What calls that wait in line cost in memory, in a gateway of their own (bar 7). */
import { setTimeout as delay } from 'node:timers/promises';
import { weigh } from './processes.mjs';
import { readStages } from './stages.mjs';
import { openGateway, openTenant } from './systems.mjs';

const inLine = 1_000;
const pollMs = 50;
const patienceMs = 20_000;

/**
 * After few writes only: the heap of a gateway that has had many has grown, and calls that fit into what it keeps free would seem to cost nothing.
 * @returns `{calls, bytes}`: so many in line for one order whose first credit is being sent, and what they added to the memory
 */
export async function measureWaiting(house) {
  const gateway = { name: 'waiting', engine: house.postgres.pid, ...(await openGateway(house, await openTenant(house, 'waiting'))) };
  await house.load.run({ urls: gateway.urls, ...gateway.requests.write, clients: 4, calls: 100, seconds: 60, prefix: '9', first: 1_000_000 });
  const looked = async () => (await readStages(gateway.controlUrl)).times['authorize resource'] ?? 0;
  const [sighted, before] = [await looked(), weigh(gateway.pid)];
  if (before === null) return null;
  // Who waits was shown the order already; the load ends when the gateway does.
  const load = house.load.run({ urls: gateway.urls, ...gateway.requests.inLine, clients: inLine + 1, calls: inLine + 1, seconds: 60, prefix: '', first: 1_000 });
  const until = performance.now() + patienceMs;
  while ((await looked()) - sighted < inLine + 1) {
    gateway.mustLive();
    if (performance.now() > until) throw new Error(`of ${inLine + 1} calls on one order only ${(await looked()) - sighted} came into line`);
    await delay(pollMs);
  }
  const bytes = weigh(gateway.pid).rssBytes - before.rssBytes;
  await gateway.kill();
  await load;
  return { calls: inLine, bytes };
}
