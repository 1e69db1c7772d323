/**
 * The refund that succeeded twice: the same answer is lost on the same shop, once for a client that plans again and once for an
 * agent behind Callgate. What is said is taken from the shop's own books, and the play fails when they do not bear it out.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../../src/config/index.js';
import { customer } from '../../../src/development/keys.js';
import { developmentSecrets } from '../../../src/development/secrets.js';
import { type Development, startDevelopment } from '../../../src/development/start.js';
import type { Answer, JsonObject } from '../../../src/model.js';
import { projectFile } from '../../../src/project.js';
import { naiveRefund } from '../naive-client.js';
import { type Credit, ending, gatedScene, naiveScene, opening } from './story.js';

const order = 'O-417';
const amount = 2500;

/** @param stopped the play is broken off when it resolves. @throws Error when the books tell another story. Leaves nothing behind. */
export async function play(say: (text: string) => void, stopped: Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-demo-'));
  let shop: Development | undefined;
  try {
    shop = await startDevelopment(configuration(folder));
    const brokenOff = stopped.then(() => { throw new Error('the demonstration was stopped'); });
    await Promise.race([scenes(shop.details, developmentSecrets(folder).example_token, say), brokenOff]);
  } finally {
    await shop?.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Free ports and data of its own, so that it runs beside anything; nothing of the caller's environment is read. */
function configuration(folder: string) {
  const loaded = loadConfig({
    folder,
    env: {
      CALLGATE_DATA_DIR: folder, CALLGATE_AGENT_PORT: '0', CALLGATE_CONTROL_PORT: '0', CALLGATE_EXAMPLE_PORT: '0', CALLGATE_LOG_LEVEL: 'silent',
      CALLGATE_CONTRACTS_FOLDER: projectFile('examples', 'retail', 'contracts'),
    },
  });
  if ('problems' in loaded) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  return loaded.config;
}

async function scenes(details: Development['details'], token: string, say: (text: string) => void): Promise<void> {
  const { upstream_url: shop, agent_url, control_url, agent_key, auditor_key } = details;
  say(opening());

  await loseNextAnswer(shop);
  const plans = await naiveRefund(shop, token, { orderId: order, amount, customerId: customer });
  const naive = await credits(shop);
  say(naiveScene(plans, naive));

  await post(`${shop}/_reset`);
  await loseNextAnswer(shop);
  const propose = (callId: string) => post(`${agent_url}/v1/calls`, {
    session_id: 'conversation-1', intent_id: 'refund-1', call_id: callId, tool: 'issue_credit', arguments: { order_id: order, amount, currency: 'GBP' },
  }, agent_key) as Promise<Answer>;
  const first = await propose('call_1');
  const second = await propose('call_2');
  const gated = await credits(shop);
  const receipt = await get(`${control_url}/v1/receipts/${first.receipts.effect}`, auditor_key);
  say(gatedScene(first, second, receipt, gated));

  checkBooks(naive, gated);
  say(ending());
}

/** The claim of the whole play. @throws Error when it does not hold. */
export function checkBooks(naive: readonly Credit[], gated: readonly Credit[]): void {
  if (naive.length === 2 && gated.length === 1) return;
  throw new Error(`the books should show two credits without Callgate and one with it; they show ${naive.length} and ${gated.length}`);
}

async function loseNextAnswer(shop: string): Promise<void> {
  await post(`${shop}/_faults`, { tool: 'issue_credit', kind: 'commit_then_drop' });
}

async function credits(shop: string): Promise<Credit[]> {
  return (await get(`${shop}/_books`))['credits'] as unknown as Credit[];
}

function get(url: string, key?: string): Promise<JsonObject> {
  return ask(url, { headers: bearer(key) });
}

function post(url: string, body: JsonObject = {}, key?: string): Promise<unknown> {
  return ask(url, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...bearer(key) } });
}

async function ask(url: string, request: RequestInit): Promise<JsonObject> {
  return (await (await fetch(url, request)).json()) as JsonObject;
}

function bearer(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { authorization: `Bearer ${key}` };
}
