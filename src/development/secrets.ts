/** Keys of a development set-up: made at the first start, kept beside its data, readable by their owner alone. */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { addKey } from '../chain/keys.js';
import { mintKey } from '../identity/api-keys.js';

export interface DevelopmentSecrets {
  key_pepper: string;
  seal_key: string;
  /** A JWK Set. */
  signing_keys: string;
  example_token: string;
  /** As Standard Webhooks writes it. */
  example_webhook_secret: string;
  agent_key: string;
  application_key: string;
  reviewer_keys: [string, string];
  auditor_key: string;
  admin_key: string;
}

/** @throws Error when the file is there and is not ours. */
export function developmentSecrets(folder: string): DevelopmentSecrets {
  const file = join(folder, 'secrets.json');
  const before = existsSync(file) ? readSecrets(file, folder) : {};
  const secret = (): string => randomBytes(32).toString('base64url');
  const key = (): string => mintKey().key;
  const made: DevelopmentSecrets = {
    key_pepper: secret(), seal_key: secret(), signing_keys: JSON.stringify(addKey(null, 'development', new Date(), 0)), example_token: secret(), example_webhook_secret: `whsec_${randomBytes(32).toString('base64')}`,
    agent_key: key(), application_key: key(), reviewer_keys: [key(), key()],
    auditor_key: key(), admin_key: key(), ...before,
  };
  writeFileSync(file, `${JSON.stringify(made, null, 2)}\n`, { mode: 0o600 });
  return made;
}

/** Those of an earlier version may lack what has come since. */
function readSecrets(file: string, folder: string): Partial<DevelopmentSecrets> {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Partial<DevelopmentSecrets>;
  } catch {
    throw new Error(`${file} cannot be read as JSON; remove the folder ${folder} to start afresh`);
  }
}
