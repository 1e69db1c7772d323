import { readFileSync } from 'node:fs';
import { addKey, readKeyRing } from '../chain/keys.js';
import { eraseSubject } from './receipts-erase.js';
import { exportReceipts } from './receipts-export.js';
import { reconcileReceipts } from './receipts-reconcile.js';
import { readArgs, readConfig, UsageError } from './usage.js';
import { verifyReceipts } from './receipts-verify.js';

const overlapMs = 24 * 3_600_000;

/** `callgate receipts VERB`: for those who have to be convinced. All but `export` and `erase` work without the gateway and its database. */
export async function receipts([verb, ...args]: string[]): Promise<number> {
  switch (verb) {
    case 'export': {
      const { values: { url, key, out } } = readArgs(args, { url: { type: 'string' }, key: { type: 'string' }, out: { type: 'string' } });
      if (!url || !key || !out) throw new UsageError('--url, --key and --out are needed');
      return exportReceipts({ url, key, out });
    }
    case 'verify': {
      const { values, positionals: [file] } = readArgs(args, { keys: { type: 'string' }, known: { type: 'string', multiple: true } }, 1);
      if (!file || !values.keys) throw new UsageError('the file of an export and --keys are needed');
      return verifyReceipts(file, readKeyFile(values.keys), values.known ?? []);
    }
    case 'reconcile': {
      const { values, positionals: [file] } = readArgs(args, { seen: { type: 'string' }, tool: { type: 'string', multiple: true } }, 1);
      if (!file || !values.seen) throw new UsageError('the file of an export and --seen are needed');
      return reconcileReceipts(file, values.seen, values.tool ?? []);
    }
    case 'erase': {
      const { values } = readArgs(args, { config: { type: 'string' }, tenant: { type: 'string' }, subject: { type: 'string' }, by: { type: 'string' } });
      if (!values.tenant || !values.subject || !values.by) throw new UsageError('--tenant, --subject and --by are needed');
      return eraseSubject(readConfig(values.config), { tenant: values.tenant, subject: values.subject, by: values.by });
    }
    case 'keygen': {
      const { values } = readArgs(args, { keys: { type: 'string' }, id: { type: 'string' } });
      const now = new Date();
      const id = values.id ?? now.toISOString().slice(0, 10);
      console.log(JSON.stringify(addKey(values.keys === undefined ? null : readText(values.keys), id, now, overlapMs)));
      return 0;
    }
    default: throw new UsageError('the verbs are `export`, `verify`, `reconcile`, `erase` and `keygen`; see `callgate help`');
  }
}

function readKeyFile(file: string): ReturnType<typeof readKeyRing> {
  const text = readText(file);
  try {
    return readKeyRing(text);
  } catch (error) {
    throw new Error(`${file} has no usable verification keys: ${(error as Error).message}. Save what \`GET /v1/receipts/keys\` answers`);
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`${file} cannot be read (${String((error as { code?: unknown }).code)})`);
  }
}
