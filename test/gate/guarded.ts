/**
 * An agent whose every answer is held against openapi.yaml and against the table of dispositions in protocol.md, so that no test of
 * the guard has to remember to; contracts with a change; and keys beyond those that every house has.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { keyDigest, keyPrefix, type KeyRecord, mintKey } from '../../src/identity/api-keys.js';
import { readOpenapi } from '../../src/http/control/openapi.js';
import { createPool } from '../../src/ledger/connection.js';
import { openKeys } from '../../src/ledger/keys.js';
import type { Disposition, NextAction } from '../../src/model.js';
import { projectFile } from '../../src/project.js';
import { Agent, type House, pepper, type Sent } from '../support/gateway.js';

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema({ $id: 'openapi', components: readOpenapi(projectFile('openapi.yaml'))['components'] });
const isAnswer = ajv.compile({ $ref: 'openapi#/components/schemas/Answer' });
const isProblem = ajv.compile({ $ref: 'openapi#/components/schemas/Problem' });

/** protocol.md, "The answer"; `per contract` is any. */
const table: Record<Disposition, { http: number[]; next: NextAction[] | 'any' }> = {
  executed: { http: [200], next: ['continue', 'verify'] },
  replayed: { http: [200], next: ['continue', 'verify'] },
  pending: { http: [202], next: ['wait'] },
  unknown: { http: [202], next: ['wait'] },
  approval_required: { http: [202], next: ['ask', 'escalate'] },
  review: { http: [202], next: ['escalate'] },
  in_progress: { http: [409], next: ['wait'] },
  invalid_call: { http: [400, 413], next: ['repair'] },
  blocked_tool: { http: [404], next: ['repair'] },
  invalid_arguments: { http: [422], next: ['repair'] },
  id_conflict: { http: [422], next: ['repair'] },
  denied: { http: [403, 404], next: ['abandon', 'ask', 'escalate'] },
  precondition_failed: { http: [409], next: 'any' },
  transition_error: { http: [409], next: 'any' },
  version_required: { http: [428], next: ['refresh'] },
  version_conflict: { http: [412], next: ['refresh'] },
  budget_exhausted: { http: [429], next: ['abandon', 'escalate'] },
  rejected: { http: [422], next: 'any' },
  rate_limited: { http: [429], next: ['retry'] },
  failed: { http: [502], next: ['retry'] },
  unavailable: { http: [503], next: ['retry'] },
  cancelled: { http: [409], next: ['abandon'] },
};
const pauses: ReadonlySet<Disposition> = new Set(['in_progress', 'rate_limited', 'unavailable']);

export function holdAnswer(sent: Sent): Sent {
  const { http, header, ...answer } = sent;
  const refused = http >= 400;
  const valid = refused ? isProblem : isAnswer;
  expect(valid(answer), `${JSON.stringify(answer)} ${ajv.errorsText(valid.errors)}`).toBe(true);
  expect(header('content-type')).toBe(refused ? 'application/problem+json' : 'application/json');
  const row = table[answer.disposition];
  expect(row.http, `${answer.disposition} ${answer.code}`).toContain(http);
  if (row.next !== 'any') expect(row.next, `${answer.disposition} ${answer.code}`).toContain(answer.next_action);
  if (refused) expect(answer.status).toBe(http);
  expect(header('retry-after') !== null, `Retry-After of ${answer.disposition}`).toBe(pauses.has(answer.disposition) || (!refused && answer.retry_after_ms !== null));
  const forbids = refused && !['retry', 'wait'].includes(answer.next_action);
  expect(header('x-should-retry'), `x-should-retry of ${answer.disposition} ${answer.next_action}`).toBe(forbids ? 'false' : null);
  if (answer.tool !== 'issue_credit' && answer.tool !== 'cancel_order' && answer.tool !== 'void_credit') expect(answer.evidence_of_change).toBe(false);
  return sent;
}

export class HeldAgent extends Agent {
  override async post(path: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Sent> {
    return holdAnswer(await super.post(path, body, headers));
  }

  order(order: string, change: Record<string, unknown> = {}): Promise<Sent> {
    return this.call({ session_id: 's-1', tool: 'get_order', arguments: { order_id: order }, ...change });
  }
}

/** The example's contracts with `retail.yaml` as `change` makes it, in a folder of their own. */
export function contractsChanged(change: (text: string) => string): { CALLGATE_CONTRACTS_FOLDER: string } {
  const made = contractsWith([]);
  const file = join(made.CALLGATE_CONTRACTS_FOLDER, 'retail.yaml');
  const before = readFileSync(file, 'utf8');
  const after = change(before);
  if (after === before) throw new Error('the contract was not changed');
  writeFileSync(file, after);
  return made;
}

/** The example's contracts with each text replaced once, in a folder of their own; a text that is not there is a mistake of the test. */
export function contractsWith(changes: [from: string, to: string][], policies: [from: string, to: string][] = []): { CALLGATE_CONTRACTS_FOLDER: string } {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-contracts-'));
  cpSync(projectFile('examples', 'retail', 'contracts'), folder, { recursive: true });
  edit(join(folder, 'retail.yaml'), changes);
  edit(join(folder, 'policies', 'retail.cedar'), policies);
  return { CALLGATE_CONTRACTS_FOLDER: folder };
}

function edit(file: string, changes: [from: string, to: string][]): void {
  let text = readFileSync(file, 'utf8');
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`${file} does not contain ${from}`);
    text = text.replace(from, () => to);
  }
  writeFileSync(file, text);
}

/** A key like the house's `agent` (acme, agent-1, C-17), but for `change`. */
export async function anotherKey(house: House, change: Partial<KeyRecord>): Promise<string> {
  const { key } = mintKey();
  const pool = createPool({ url: house.databaseUrl, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
  await openKeys(pool).saveKey({
    prefix: keyPrefix(key) as string, digest: keyDigest(pepper, key), tenant: 'acme', principal: 'agent-1', roles: ['agent'], subject: 'C-17', purposes: ['refund'],
    tools: '*', grants: { assertSubject: false, ownKeys: true }, expiresAt: null, revokedAt: null, ...change,
  });
  await pool.end();
  return key;
}

/** Everything of an answer that a caller could compare with another's: all but its own ids and times. */
export function visible({ call_id, operation_id, receipts, trace, header, ...rest }: Sent): object {
  const headers = ['content-type', 'retry-after', 'x-should-retry', 'cache-control', 'content-length', 'preference-applied'].map((name) => [name, header(name)]);
  return { ...rest, receipts: Object.entries(receipts).map(([name, id]) => [name, id !== null]), stages: trace.map(({ stage, verdict }) => [stage, verdict]), headers: headers.filter(([name]) => name !== 'content-length') };
}
