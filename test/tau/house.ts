/** A whole gateway between agents and the tau retail service of one edition, in this process. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Edition } from '../../examples/tau-retail/domain/records.js';
import { readRetailData } from '../../examples/tau-retail/domain/store.js';
import { startTauService, type TauService } from '../../examples/tau-retail/service/server.js';
import { keyDigest, keyPrefix, mintKey } from '../../src/identity/api-keys.js';
import { createPool } from '../../src/ledger/connection.js';
import { openKeys } from '../../src/ledger/keys.js';
import { projectFile } from '../../src/project.js';
import { Agent, openGateway, openHouse, pepper, token } from '../support/gateway.js';
import { dataFolder } from './recording.js';

export interface TauHouse {
  service: TauService;
  /** May act for whichever user a conversation identified. */
  agent: Agent;
  close(): Promise<void>;
}

/** @param settleAfter instead of the ten seconds of the contracts. */
export async function openTauHouse(edition: Edition, settleAfter = '10s'): Promise<TauHouse> {
  const service = await startTauService({ edition, data: readRetailData(dataFolder), port: 0, token });
  Object.assign(process.env, { TAU_RETAIL_URL: service.url, TAU_RETAIL_TOKEN: token });
  const house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: contractsFolder(edition, settleAfter) });
  const key = await saveAgentKey(house.databaseUrl);
  const { gateway } = await openGateway(house);
  return {
    service,
    agent: new Agent(gateway.agentUrl, key),
    async close() {
      await gateway.close();
      await house.close();
      await service.close();
    },
  };
}

function contractsFolder(edition: Edition, settleAfter: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-tau-'));
  cpSync(projectFile('examples', 'tau-retail', 'contracts', edition), folder, { recursive: true });
  const file = join(folder, 'retail.yaml');
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll('settle_after: 10s', `settle_after: ${settleAfter}`));
  return folder;
}

async function saveAgentKey(url: string): Promise<string> {
  const { key } = mintKey();
  const pool = createPool({ url, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
  await openKeys(pool).saveKey({
    prefix: keyPrefix(key) as string,
    digest: keyDigest(pepper, key),
    tenant: 'store',
    principal: 'agent',
    roles: ['agent'],
    subject: null,
    purposes: [],
    tools: '*',
    grants: { assertSubject: true, ownKeys: false },
    expiresAt: null,
    revokedAt: null,
  });
  await pool.end();
  return key;
}
