/** Durable execution engines that do the same write: two durable steps around the same request, under the same idempotency key. Installed by `npm run bench:peers`. */
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../dist/src/embedded/free-port.js';
import { createDatabase } from './database.mjs';
import { start } from './processes.mjs';

const here = (name) => fileURLToPath(new URL(`peers/${name}`, import.meta.url));
const poolSize = 20;

/** @returns a system, as `open` of systems.mjs has them; `write` says what one write to it looks like. */
export function openPeer(house, name, write) {
  mustBeInstalled();
  return name === 'dbos' ? openDbos(house, write) : openRestate(house, name, write);
}

async function openDbos(house, write) {
  const database = await createDatabase(house, 'dbos');
  const dbos = await start('dbos', [process.execPath, here('dbos.mjs')], { UPSTREAM: house.upstream.url, DATABASE_URL: database, POOL: String(poolSize) });
  house.defer(dbos.stop);
  return {
    ...dbos, urls: [dbos.url], requests: { write, duplicate: write },
    settings: [`dbos: DBOS Transact ${versionOf('@dbos-inc/dbos-sdk')}, a workflow of one step, its id the key; the same Postgres, ${poolSize} connections as naive has; LISTEN/NOTIFY on, as is the default`],
  };
}

/** Defaults but for the number of partitions: its log and its store on the same disk, with fsync, one node. */
async function openRestate(house, name, write) {
  const partitions = name === 'restate' ? null : 1;
  const [ingress, admin, node, service] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const file = join(house.folder, `${name}.toml`);
  writeFileSync(file, [
    `base-dir = "${join(house.folder, name)}"`, `node-name = "${name}"`, 'bind-ip = "127.0.0.1"', 'advertised-host = "127.0.0.1"', 'listen-mode = "tcp"', `bind-port = ${node}`,
    ...(partitions === null ? [] : [`default-num-partitions = ${partitions}`]), 'disable-telemetry = true', 'log-filter = "error"', 'log-disable-ansi-codes = true',
    '[ingress]', `bind-port = ${ingress}`, '[admin]', `bind-port = ${admin}`,
  ].join('\n'));
  const engine = await start(name, [serverProgram(), '--config-file', file, '--no-logo'], { HOME: house.folder, RESTATE_CONFIG: file }, {
    url: `http://127.0.0.1:${ingress}`, isUp: () => answers(`http://127.0.0.1:${admin}/health`),
  });
  house.defer(engine.stop);
  const handler = await start(`the service of ${name}`, [process.execPath, here('restate.mjs')], { UPSTREAM: house.upstream.url, PORT: String(service), RESTATE_LOGGING: 'ERROR' });
  house.defer(handler.stop);
  const registered = await fetch(`http://127.0.0.1:${admin}/deployments`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ uri: `http://127.0.0.1:${service}` }),
  });
  if (!registered.ok) throw new Error(`${name} does not take its service: ${await registered.text()}`);
  const request = { ...write, path: '/bench/call' };
  return {
    ...handler, engine: engine.pid, urls: [engine.url], requests: { write: request, duplicate: request },
    mustLive: () => [handler, engine].forEach((each) => each.mustLive()),
    settings: [`${name}: Restate ${versionOf('@restatedev/restate-server')}, ${partitions ?? 'by default 24'} partition${partitions === 1 ? '' : 's'}, one node, its own log and store on the same disk with fsync; a service in Node with one durable step; kept results for duplicates, as is the default`],
  };
}

const requirePeer = createRequire(here('package.json'));

function mustBeInstalled() {
  try {
    requirePeer.resolve('@dbos-inc/dbos-sdk');
    serverProgram();
  } catch (error) {
    throw new Error('the peers are not installed: `npm run bench:peers` does that, where there are packages for this platform', { cause: error });
  }
}

/** The program itself, so that it is what is weighed and ended: its npm command is a script that starts it. */
function serverProgram() {
  return requirePeer.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
}

function versionOf(name) {
  return requirePeer('./package-lock.json').packages[`node_modules/${name}`].version;
}

async function answers(url) {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}
