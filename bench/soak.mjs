/**
 * npm run bench:soak -- [--minutes 60] [--json FILE]
 *
 * The memory of a gateway at 64 clients over a long time (bar 7): unique writes without a pause, a line a minute. Ends with 1 when it grew beyond the bar
 * in the second half, or a call was answered wrongly. An hour leaves some gigabytes in a temporary folder, which are removed at the end.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { fixed, table } from './figures.mjs';
import { measuring as measuringIn } from './measure.mjs';
import { open } from './systems.mjs';

const clients = 64;
const barBytes = 250e6;

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '60' }, json: { type: 'string' } } });
const minutes = Number(values.minutes);
const house = await open(['callgate']);
try {
  const { measure } = measuringIn(house);
  const [gateway] = house.systems;
  const head = ['minute', 'calls/s', 'p50 ms', 'p99', 'CPU gateway', 'engine', 'RSS MB', 'others', 'errors'];
  const slices = [];
  for (let minute = 1; minute <= Math.ceil(minutes); minute++) {
    const slice = await measure(gateway, 'write', clients, 60 * Math.min(1, minutes - minute + 1));
    slices.push(slice);
    const { calls, seconds, latencyMs, cpuMs, rssBytes, foreignCores, errors } = slice;
    const row = [String(minute), fixed(calls / seconds, 0), fixed(latencyMs.p50, 1), fixed(latencyMs.p99, 1), fixed(cpuMs?.gateway, 3), fixed(cpuMs?.engine, 3), fixed(rssBytes === null ? null : rssBytes / 1e6, 0), fixed(foreignCores, 2), String(errors)];
    console.log(table([head, row]).split('\n').filter((_, n) => minute === 1 || n === 2).join('\n'));
  }
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ slices }, null, 2)}\n`);
  const late = slices.slice(Math.floor(slices.length / 2));
  const most = Math.max(...late.map(({ rssBytes }) => rssBytes ?? 0));
  const met = most > 0 && most <= barBytes;
  console.log(`bar 7, memory at ${clients} clients in the second half: at most ${fixed(most / 1e6, 0)} MB, wanted ≤ ${fixed(barBytes / 1e6, 0)} MB: ${met ? 'met' : 'MISSED'}`);
  if (!met || slices.some(({ errors }) => errors > 0)) process.exitCode = 1;
} finally {
  await house.stop();
}
