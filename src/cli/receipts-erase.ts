/** `callgate receipts erase`: the contents of a person's receipts and answers, in the database itself. Carried out once its notice is sealed. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config/index.js';
import { openLedger } from '../ledger/ledger.js';
import { createSealer } from '../ledger/seal.js';
import { fingerprintSecret, markOfSubject } from '../telemetry/fingerprint.js';

/** A whole tenant may have to be read. */
const statementMs = 600_000;
const waitMs = 30_000;
const lookMs = 250;

export async function eraseSubject(config: Config, { tenant, subject, by }: { tenant: string; subject: string; by: string }): Promise<number> {
  const { database: { url }, secrets: { keyPepper, sealKey } } = config;
  if (!url || !keyPepper || !sealKey) throw new Error('`database.url`, `secrets.key_pepper` and `secrets.seal_key` are needed, as the gateway has them');
  if (subject === '') throw new Error('`--subject` is empty: nobody has that id');
  const store = openLedger({ url, preparedStatements: false, statementTimeoutMs: statementMs, connectTimeoutMs: 5_000, poolSize: 1, maxBatch: 1, maxQueue: 1 }, createSealer(sealKey));
  try {
    const marks = [subject, fingerprintSecret(keyPepper, subject)];
    const { planned, open } = await store.erasures.planSubject({ tenant, subject, marks, left: markOfSubject(keyPepper, tenant, subject), by });
    let erased = 0;
    for (const until = performance.now() + waitMs; erased < planned && performance.now() < until; await delay(lookMs)) erased += (await store.erasures.carryOut()).erased;
    console.log(`${planned} receipts are to be erased${erased < planned ? ', once their notice is sealed: a running gateway does it, and carries it out' : ', and are'}`);
    if (open > 0) console.log(`${open} receipts stay, because their operations have not ended: run this again when they have`);
    return open > 0 ? 1 : 0;
  } finally {
    await store.close();
  }
}
