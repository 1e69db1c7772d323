/**
 * The recorded domain through a gateway as its users run it: `npm run acceptance:tau -- [--data DIR] [--calls FILE] [--mode MODE]
 * [--kills SHARE] [--seed N] [--json FILE]`. Exit status 1 on any difference that the README of the data does not explain.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Edition } from '../domain/records.js';
import { readRetailData, type RetailData } from '../domain/store.js';
import { openHouse } from './house.js';
import { delivery, type Mode, modes, prepare } from './modes.js';
import { type Conversation, readConversations } from './recordings.js';
import { replay, type Replayed } from './replay.js';
import { isAccepted, type ModeReport, print, summarize } from './report.js';
import { probe, type Stranger } from './strangers.js';

const usage = `npm run acceptance:tau -- [OPTION...]
  --data DIR     the folder with orders.json, users.json, products.json (default: ../shared/data/tau-retail)
  --calls FILE   recorded calls, one JSON object a line (default: calls.jsonl in that folder)
  --mode MODE    ${modes.join(', ')} or all (default: all)
  --kills SHARE  in mode kill9: the share of turns in which the gateway is killed (default: 0.05)
  --seed N       for where the kills fall (default: a new one, which is printed)
  --json FILE    the report, for programs`;

interface Options { dataFolder: string; callsFile: string; modes: readonly Mode[]; killShare: number; seed: number; json: string | null }

function readOptions(args: string[]): Options {
  const { values } = parseArgs({ args, options: {
    data: { type: 'string' }, calls: { type: 'string' }, mode: { type: 'string' }, kills: { type: 'string' }, seed: { type: 'string' }, json: { type: 'string' },
  } });
  const dataFolder = resolve(values.data ?? join('..', 'shared', 'data', 'tau-retail'));
  const callsFile = resolve(values.calls ?? join(dataFolder, 'calls.jsonl'));
  for (const needed of [callsFile, ...['orders.json', 'users.json', 'products.json'].map((name) => join(dataFolder, name))]) {
    if (!existsSync(needed)) throw new Error(`there is no ${needed}: name the folder with --data and the recordings with --calls`);
  }
  const mode = values.mode ?? 'all';
  const chosen = modes.filter((each) => mode === 'all' || each === mode);
  if (chosen.length === 0) throw new Error(`--mode is one of ${modes.join(', ')} or all, not \`${mode}\``);
  const killShare = Number(values.kills ?? 0.05);
  if (!(killShare >= 0 && killShare <= 1)) throw new Error('--kills is a share between 0 and 1');
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed is a whole number from 0');
  return { dataFolder, callsFile, modes: chosen, killShare, seed, json: values.json ?? null };
}

async function runMode(mode: Mode, conversations: readonly Conversation[], data: RetailData, options: Options): Promise<ModeReport> {
  const started = performance.now();
  const replayed: Replayed[] = [];
  const strangers: Stranger[] = [];
  let kills = 0;
  for (const edition of new Set(conversations.map((each) => each.edition))) {
    const those = conversations.filter((each) => each.edition === edition);
    kills += await runEdition(mode, edition, those, data, options, replayed, strangers);
  }
  return summarize(mode, replayed, strangers, { kills, seconds: (performance.now() - started) / 1000 });
}

async function runEdition(
  mode: Mode, edition: Edition, conversations: readonly Conversation[], data: RetailData, options: Options, replayed: Replayed[], strangers: Stranger[],
): Promise<number> {
  const house = await openHouse(edition, data);
  try {
    const deliver = delivery(mode, options);
    for (const [index, conversation] of conversations.entries()) {
      prepare(mode, house);
      replayed.push(await replay(house, conversation, data, `${edition}-${index}`, deliver));
    }
    await house.gateway.start();
    strangers.push(...(await probe(house, conversations, data, `${edition}-stranger`)));
    return house.gateway.kills;
  } finally {
    await house.close();
  }
}

try {
  const options = readOptions(process.argv.slice(2));
  const data = readRetailData(options.dataFolder);
  const conversations = readConversations(options.callsFile);
  const calls = conversations.reduce((sum, each) => sum + each.calls.length, 0);
  console.log(`${calls} recorded calls in ${conversations.length} conversations; seed ${options.seed}`);
  const reports: ModeReport[] = [];
  for (const mode of options.modes) {
    const report = await runMode(mode, conversations, data, options);
    reports.push(report);
    console.log(print(report, calls));
  }
  const accepted = calls > 0 && reports.every((report) => isAccepted(report) && report.calls === calls && (report.mode !== 'kill9' || options.killShare === 0 || report.kills > 0));
  if (options.json) writeFileSync(options.json, JSON.stringify({ calls, seed: options.seed, accepted, modes: reports }, null, 2));
  console.log(accepted ? '\nAccepted: no difference that is not explained.' : '\nNot accepted.');
  process.exitCode = accepted ? 0 : 1;
} catch (error) {
  console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
  process.exitCode = 2;
}
