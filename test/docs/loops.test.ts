/** The loops of docs/dialects.md, as they stand there, with the providers' own packages, against a real gateway. */
import Anthropic from '@anthropic-ai/sdk';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, jsonSchema, stepCountIs, tool } from 'ai';
import OpenAI from 'openai';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { type ModelServer, startModelServer } from '../support/model-server.js';
import { blocks, page } from './pages.js';

type Loop = (client: unknown, model: string, session: string, messages: object[]) => Promise<string>;
interface Loops { chat: Loop; responses: Loop; anthropic: Loop; toolsOf(ai: object, session: string): Promise<NonNullable<Parameters<typeof generateText>[0]['tools']>> }

let house: House;
let opened: Opened;
let server: ModelServer;
let loops: Loops;

beforeAll(async () => {
  house = await openHouse();
  opened = await openGateway(house);
  server = await startModelServer((told) => {
    if (told.length === 0) return { calls: [{ name: 'get_order', args: { order_id: 'O-417' } }, { name: 'issue_credit', args: { order_id: 'O-417', amount: 2500, currency: 'USD' } }] };
    if (told.length === 2) return { text: 'Once more.', calls: [{ name: 'issue_credit', args: { order_id: 'O-417', amount: 2500, currency: 'GBP' } }] };
    return { text: `It said: ${told[2]}` };
  });
  Object.assign(process.env, { CALLGATE_URL: opened.gateway.agentUrl, CALLGATE_KEY: house.keys.agent });
  const file = join(mkdtempSync(join(tmpdir(), 'callgate-loops-')), 'loops.mjs');
  writeFileSync(file, blocks(page('docs/dialects.md').text, 'js').join('\n'));
  loops = (await import(file)) as Loops;
});
afterAll(async () => {
  await server.close();
  await opened.gateway.close();
  await house.close();
});
beforeEach(() => house.shop.reset());

async function once(said: string): Promise<void> {
  const { credits } = await house.shop.books();
  expect(credits).toHaveLength(1);
  expect(said).toContain('It said:');
  expect(said).toContain(credits[0]?.receipt_id);
  expect(server.refused).toEqual([]);
}

describe('docs/dialects.md: the loops as they stand there', () => {
  const ask = (): object[] => [{ role: 'user', content: 'Credit me 25 pounds for O-417.' }];
  const options = { apiKey: 'none', maxRetries: 0 };

  it('chat', async () => once(await loops.chat(new OpenAI({ ...options, baseURL: `${server.url}/v1` }), 'm', unique('s'), ask())));
  it('responses', async () => once(await loops.responses(new OpenAI({ ...options, baseURL: `${server.url}/v1` }), 'm', unique('s'), ask())));
  it('anthropic', async () => once(await loops.anthropic(new Anthropic({ ...options, baseURL: server.url }), 'm', unique('s'), ask())));

  it('the Vercel AI SDK', async () => {
    const provider = createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' });
    const { text } = await generateText({
      model: provider.chat('m'), tools: await loops.toolsOf({ tool, jsonSchema }, unique('s')), stopWhen: stepCountIs(5), prompt: 'Credit me 25 pounds for O-417.', maxRetries: 0,
    });
    await once(text);
  });

  it('are about ten lines each', () => {
    for (const block of blocks(page('docs/dialects.md').text, 'js')) expect(block.trimEnd().split('\n').length).toBeLessThanOrEqual(12);
  });
});
