/** A house whose gateways serve the till's contracts, and agents that send turns. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Answer } from '../../../src/model.js';
import { projectFile } from '../../../src/project.js';
import { Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../../support/gateway.js';
import type { Joints } from '../../../src/main.js';
import { Till } from './service.js';

export interface TillHouse { house: House; till: Till; env: Record<string, string>; open(env?: Record<string, string>, joints?: Joints): Promise<OpenedTill>; close(): Promise<void> }
export interface OpenedTill extends Opened { batches: BatchAgent }
export interface Results extends Sent { results: Answer[] }

export async function openTill(changes: [from: string, to: string][] = []): Promise<TillHouse> {
  const till = await Till.start();
  const folder = mkdtempSync(join(tmpdir(), 'callgate-till-'));
  for (const file of ['till.yaml', 'till.cedar']) cpSync(projectFile('test', 'gate', 'till', file), join(folder, file));
  const file = join(folder, 'till.yaml');
  const text = changes.reduce((before, [from, to]) => {
    if (!before.includes(from)) throw new Error(`till.yaml does not contain ${from}`);
    return before.replace(from, to);
  }, readFileSync(file, 'utf8'));
  writeFileSync(file, text);
  const env = { CALLGATE_CONTRACTS_FOLDER: folder, TILL_URL: till.url };
  const house = await openHouse(env);
  return {
    house, till, env,
    async open(more = {}, joints = {}) {
      process.env['TILL_URL'] = till.url;
      const opened = await openGateway(house, more, joints);
      return { ...opened, batches: new BatchAgent(opened.gateway.agentUrl, house.keys.agent) };
    },
    async close() {
      await house.close();
      await till.close();
    },
  };
}

export interface Call { call_id?: unknown; tool?: unknown; arguments?: unknown; [member: string]: unknown }

export class BatchAgent extends Agent {
  async batch(calls: Call[], members: Record<string, unknown> = {}, headers: Record<string, string> = {}): Promise<Results> {
    return (await this.post('/v1/batches', JSON.stringify({ session_id: unique('s'), calls, ...members }), headers)) as Results;
  }
}

export const create = (sale: string, more: Call = {}): Call => ({ call_id: unique('create'), tool: 'create_transaction', arguments: { sale_id: sale }, ...more });
export const charge = (sale: string, more: Call = {}): Call => ({ call_id: unique('charge'), tool: 'charge_payment', arguments: { sale_id: sale, amount: 5 }, ...more });
export const cancel = (sale: string, more: Call = {}): Call => ({ call_id: unique('cancel'), tool: 'cancel_sale', arguments: { sale_id: sale }, ...more });
export const getSale = (sale: string, more: Call = {}): Call => ({ call_id: unique('read'), tool: 'get_sale', arguments: { sale_id: sale }, ...more });
export const writeDoc = (doc: string, text: string, more: Call = {}): Call => ({ call_id: unique('write'), tool: 'write_doc', arguments: { doc_id: doc, text }, ...more });
export const readDoc = (doc: string, more: Call = {}): Call => ({ call_id: unique('read'), tool: 'read_doc', arguments: { doc_id: doc }, ...more });
export const stock = (sku: string, more: Call = {}): Call => ({ call_id: unique('add'), tool: 'add_stock', arguments: { sku, qty: 5 }, ...more });
export const note = (t: string, more: Call = {}): Call => ({ tool: 'add_note', arguments: { t }, ...more });

export const dispositions = ({ results }: Results): string[] => results.map(({ disposition, code }) => code ?? disposition);
