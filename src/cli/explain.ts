import { compileFolder } from '../contract/compile.js';
import type { JsonObject } from '../model.js';
import { loadPolicies } from '../policy/cedar.js';
import { readPolicies } from '../policy/read.js';
import { policySchemaOf } from '../policy/schema.js';
import { explanation, type PoliciesAtHand, type Story } from './explanation.js';
import { readArgs, UsageError } from './usage.js';

/** `callgate explain`: why a call was admitted or refused and what became of it, from the receipts of a running gateway. 1: there are none. */
export async function explain(args: string[]): Promise<number> {
  const { positionals: [id], values } = readArgs(args, {
    url: { type: 'string', default: 'http://127.0.0.1:9090' }, key: { type: 'string' }, contracts: { type: 'string' },
  }, 1);
  const key = values.key ?? process.env['CALLGATE_KEY'];
  if (id === undefined || !/^(op|rcp)_/.test(id)) throw new UsageError('name a receipt (`rcp_…`) or an operation (`op_…`), as answers do under `receipts` and `operation_id`');
  if (!key) throw new UsageError('a key that may read receipts is needed: `--key`, or CALLGATE_KEY in the environment');
  const atHand = values.contracts === undefined ? null : policiesOf(values.contracts);
  const story = await storyOf(id, (path) => ask(values.url, key, path));
  if (!story) {
    console.error(`callgate explain: this key's tenant has no \`${id}\`; a call that still stands in line, or is being looked at, has nothing before it is decided`);
    return 1;
  }
  console.log(explanation(story, atHand));
  return 0;
}

function policiesOf(folder: string): PoliciesAtHand {
  const compiled = compileFolder(folder, process.env);
  if ('diagnostics' in compiled) throw new UsageError(`the contracts in \`${folder}\` do not compile; \`callgate check ${folder}\` says why`);
  const { policies, tools } = compiled.catalogue;
  return { version: loadPolicies(policies, policySchemaOf(tools.values())).version, policies: readPolicies(policies).policies };
}

/** All that was recorded of the call; null when nothing was. */
async function storyOf(id: string, get: (path: string) => Promise<JsonObject | null>): Promise<Story | null> {
  if (id.startsWith('op_')) {
    const operation = await get(`/v1/operations/${id}`);
    return operation && { operation, receipts: operation['receipts'] as JsonObject[] };
  }
  const receipt = await get(`/v1/receipts/${id}`);
  if (typeof receipt?.['operation_id'] === 'string') return storyOf(receipt['operation_id'], get);
  return receipt && { operation: null, receipts: [receipt] };
}

async function ask(url: string, key: string, path: string): Promise<JsonObject | null> {
  let response: Response;
  try {
    response = await fetch(new URL(path, url), { headers: { authorization: `Bearer ${key}` } });
  } catch (error) {
    throw new Error(`the control listener at ${url} does not answer: ${(error as Error & { cause?: Error }).cause?.message ?? (error as Error).message}`);
  }
  const body = (await response.json()) as JsonObject;
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${response.status} ${String(body['title'] ?? '')}: ${String(body['detail'] ?? '')}`);
  return body;
}
