/**
 * The credential of a service, wherever it comes from, is in the request to that service and nowhere else: not in an answer, a receipt, the
 * story of an operation, the log, the metrics, nor in any row of the database. A canary in each is looked for in all that comes out.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type House, openHouse, spawnGateway, unique } from '../support/gateway.js';
import { everyRow } from '../support/rows.js';

const canaries = { env: 'CANARY-env-4f81', file: 'CANARY-file-9c2d', command: 'CANARY-command-77ab' } as const;
type Place = keyof typeof canaries;
const places = Object.keys(canaries) as Place[];

const contractOf = (place: Place): string => `
callgate: 1
service: ${place}-service
upstream: { base_url: "\${CANARY_URL}/${place}", auth: { header: X-Api-Key, value_from: "${place}:${place === 'env' ? 'CANARY_TOKEN' : 'canary'}" }, limits: { deadline: 1s } }
tools:
  ${place}_look:
    version: 1.0.0
    effect: none
    purpose: Look.
    args: { type: object, properties: { how: { type: string, maxLength: 20 } }, required: [how] }
    result: { type: object, properties: { id: { type: string } }, required: [id] }
    http: { method: GET, path: "/look/{args.how}" }
    retry: { attempts: 1 }
  ${place}_send:
    version: 1.0.0
    effect: write
    purpose: Send.
    args: { type: object, properties: { how: { type: string, maxLength: 20 } }, required: [how] }
    http: { method: POST, path: "/send/{args.how}", headers: { Idempotency-Key: "{operation.id}" }, body: { how: args.how } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a thing, never: [] }
    retry: { attempts: 1, elapsed: 1s }
    verify: on_ambiguity
    result: { type: object, properties: { id: { type: string } }, required: [id] }
policies: all.cedar
`;

describe('a credential from the environment, a file or a command', () => {
  let house: House;
  let service: Server;
  /** What the service was given, by the place in its path. */
  const given = new Map<string, Set<string>>();
  const folder = mkdtempSync(join(tmpdir(), 'callgate-canaries-'));
  beforeAll(async () => {
    service = createServer((request, response) => {
      const [, place = '', , how] = (request.url ?? '').split('/');
      given.set(place, (given.get(place) ?? new Set()).add(String(request.headers['x-api-key'])));
      request.resume();
      if (how === 'cut') return void request.socket.destroy();
      const status = Number(how) || 200;
      // A service that tells what it was sent, as careless ones do.
      return void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(status === 200 ? { id: 'x' } : { code: 'NO', message: `not for ${request.headers['x-api-key']}` }));
    });
    await once(service.listen(0, '127.0.0.1'), 'listening');
    for (const place of places) writeFileSync(join(folder, `${place}.yaml`), contractOf(place));
    writeFileSync(join(folder, 'all.cedar'), '@id("everything")\npermit (principal, action, resource);\n');
    const secrets = mkdtempSync(join(tmpdir(), 'callgate-secrets-'));
    writeFileSync(join(secrets, 'canary'), `${canaries.file}\n`);
    const commands = mkdtempSync(join(tmpdir(), 'callgate-commands-'));
    writeFileSync(join(commands, 'canary'), `#!/bin/sh\necho ${canaries.command} >&2\necho ${canaries.command}\n`);
    chmodSync(join(commands, 'canary'), 0o755);
    house = await openHouse({
      CALLGATE_CONTRACTS_FOLDER: folder, CALLGATE_LOG_LEVEL: 'trace', CANARY_URL: `http://127.0.0.1:${(service.address() as AddressInfo).port}`, CANARY_TOKEN: canaries.env,
      CALLGATE_UPSTREAM_SECRETS_FOLDER: secrets, CALLGATE_UPSTREAM_COMMANDS_FOLDER: commands,
    });
  });
  afterAll(async () => {
    service.close();
    await house.close();
    rmSync(folder, { recursive: true });
  });

  it('reaches its service, and nobody else, whatever the service answers', async () => {
    const gateway = await spawnGateway(house);
    const out: string[] = [];
    for (const place of places) {
      for (const how of ['200', '401', '403', '422', '500', 'cut']) {
        for (const tool of [`${place}_look`, `${place}_send`]) {
          out.push(JSON.stringify(await gateway.agent.call({ session_id: unique('s'), tool, arguments: { how } }, { prefer: 'wait=0' })));
        }
      }
    }
    const get = async (path: string): Promise<string> => (await fetch(gateway.controlUrl + path, { headers: { authorization: `Bearer ${house.keys.auditor}` } })).text();
    const receipts = JSON.parse(await get('/v1/receipts?limit=500')) as { items: { id: string; operation_id: string | null }[] };
    expect(receipts.items.length).toBeGreaterThan(30);
    for (const { id, operation_id } of receipts.items) out.push(await get(`/v1/receipts/${id}`), operation_id ? await get(`/v1/operations/${operation_id}`) : '');
    out.push(JSON.stringify(receipts), await get('/v1/operations?limit=500'), await get('/v1/reviews'), await get('/v1/contracts'), await get('/metrics'));
    await gateway.stop();
    out.push(gateway.stdout(), gateway.stderr(), await everyRow(house.databaseUrl));
    expect(gateway.stdout().length).toBeGreaterThan(0);

    for (const place of places) {
      expect([...(given.get(place) ?? [])]).toEqual([canaries[place]]);
      for (const text of out) expect(text).not.toContain(canaries[place]);
    }
    expect(readFileSync(join(folder, 'env.yaml'), 'utf8')).not.toContain('CANARY-');
  });
});
