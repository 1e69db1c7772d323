/** Tokens in the whole gateway, with an issuer that publishes its keys over HTTP: on the right listener, through the guard, and in no log. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, spawnGateway, unique } from '../support/gateway.js';
import { claims, makeKey, sign, type SigningKey } from './issuer.js';

describe('a gateway with an issuer', () => {
  let house: House;
  let server: Server;
  let key: SigningKey;
  let next: SigningKey;
  let published: SigningKey[];
  let answer: (path: string) => { status: number; location?: string } = () => ({ status: 200 });
  let fetched: string[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'callgate-tokens-'));

  beforeAll(async () => {
    [key, next] = await Promise.all([makeKey('k1'), makeKey('k2')]);
    server = createServer((request, response) => {
      const path = request.url ?? '';
      fetched.push(path);
      const { status, location } = answer(path);
      response.writeHead(status, { 'content-type': 'application/json', ...(location ? { location } : {}) }).end(JSON.stringify({ keys: published.map(({ jwk }) => jwk) }));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    house = await openHouse();
  });
  afterAll(async () => {
    server.close();
    await house.close();
  });
  beforeEach(() => {
    published = [key];
    fetched = [];
    answer = () => ({ status: 200 });
  });

  const port = (): number => (server.address() as AddressInfo).port;
  function issuers(host = '127.0.0.1', more = 'allow_private: [127.0.0.1]'): Record<string, string> {
    const file = join(folder, `${unique('issuers')}.yaml`);
    writeFileSync(file, `issuers:
  - name: company
    issuer: https://login.test/
    jwks_url: http://${host}:${port()}/keys
    ${more}
    audience: callgate
    typ: at+jwt
    claims:
      tenant: { claim: org, allowed: [acme] }
      roles: { claim: roles, allowed: [agent, auditor] }
      subject: { claim: user }
      purposes: { claim: purposes }
    grants: { own_keys: true }
`);
    return { CALLGATE_IDENTITY_ISSUERS_FILE: file };
  }
  const token = (change: object = {}, signer = key): Promise<string> => {
    const now = Math.floor(Date.now() / 1000);
    return sign(signer, claims({ roles: ['agent'], sub: 'agent-1', iat: now, exp: now + 300, ...change }));
  };
  const with_ = async (env: Record<string, string>, work: (gateway: Opened) => Promise<void>, joints = {}): Promise<void> => {
    const gateway = await openGateway(house, env, joints);
    try {
      await work(gateway);
    } finally {
      await gateway.gateway.close();
    }
  };

  it('an agent proposes with a token as with a key, and both are one caller', () => with_(issuers(), async (gateway) => {
    const call = { session_id: unique('s'), call_id: 'c-1' };
    const first = await gateway.as(await token()).credit(call);
    expect(first).toMatchObject({ http: 200, disposition: 'executed' });
    expect(await gateway.as(await token({ jti: 'another' })).credit(call)).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(await gateway.agent.credit(call)).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(fetched).toEqual(['/keys']);
    for (const other of [{ user: 'C-18' }, { sub: 'agent-2' }]) {
      expect((await gateway.as(await token(other)).get(`/v1/operations/${first.operation_id}`)).http).toBe(404);
    }
  }));

  it('is held to its listener by its roles, and is not one that the issuer may not give', () => with_(issuers(), async (gateway) => {
    const people = await token({ roles: ['auditor'] });
    expect((await gateway.control(people).get('/v1/receipts')).http).toBe(200);
    expect(await gateway.as(people).get('/v1/tools')).toMatchObject({ http: 403, code: 'WRONG_PLANE' });
    expect(await gateway.control(await token()).get('/v1/receipts')).toMatchObject({ http: 403, code: 'WRONG_PLANE' });
    for (const bad of [{ roles: ['agent', 'auditor'] }, { roles: ['admin'] }, { org: 'globex' }, { exp: 1 }, { aud: 'other' }]) {
      const refusal = await gateway.as(await token(bad)).get('/v1/tools');
      expect(refusal).toMatchObject({ http: 401, code: 'UNAUTHENTICATED' });
      const { incident_id: _, ...first } = refusal as unknown as Record<string, unknown>;
      const unknownKey = await gateway.as('cg_aaaaaaaa_0123456789012345678901234567890123456789012').get('/v1/tools');
      expect(JSON.stringify(first)).toBe(JSON.stringify(unknownKey));
    }
  }));

  it('a key that the issuer adds is found when the first token of it comes', () => with_(issuers(), async (gateway) => {
    expect((await gateway.as(await token()).get('/v1/tools')).http).toBe(200);
    published = [next];
    // within the cooldown of half a minute nobody can make it ask again
    for (let n = 0; n < 20; n++) expect((await gateway.as(await token({}, { ...next, kid: `made-up-${n}` })).get('/v1/tools')).http).toBe(401);
    expect(fetched).toHaveLength(1);
  }));

  it('no keys at all is no reason to call a token wrong', () => with_(issuers(), async (gateway) => {
    answer = () => ({ status: 503 });
    expect(await gateway.as(await token()).get('/v1/tools')).toMatchObject({ http: 503, code: 'ISSUER_UNAVAILABLE', next_action: 'retry' });
    expect((await gateway.agent.get('/v1/tools')).http).toBe(200);
  }));

  it('keys are fetched from where the operator lets the issuer be, and a redirect is not followed', async () => {
    await expect(openGateway(house, issuers('127.0.0.1', 'allow_private: [10.0.0.0/8]'))).rejects.toThrow('`jwks_url` of `company` is an address inside the network');
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
    await with_(issuers('login.test', 'allow_private: [10.0.0.0/8]'), async (gateway) => {
      expect(await gateway.as(await token()).get('/v1/tools')).toMatchObject({ http: 503, code: 'ISSUER_UNAVAILABLE' });
    }, { resolve });
    expect(fetched).toEqual([]);
    answer = (path) => (path === '/keys' ? { status: 302, location: '/elsewhere' } : { status: 200 });
    await with_(issuers(), async (gateway) => {
      expect(await gateway.as(await token()).get('/v1/tools')).toMatchObject({ http: 503, code: 'ISSUER_UNAVAILABLE' });
    });
    expect(fetched).toEqual(['/keys']);
  });

  it('neither a token that was taken nor one that was refused is in the log, which says why it was', async () => {
    const gateway = await spawnGateway(house, { ...issuers(), CALLGATE_LOG_LEVEL: 'trace' });
    const tokens = [await token(), await token({ exp: 1 }), await token({}, next), await token({ iss: 'https://elsewhere.test/' }), `${(await token()).slice(0, -4)}AAAA`];
    for (const each of tokens) await fetch(`${gateway.agentUrl}/v1/tools`, { headers: { authorization: `Bearer ${each}` } });
    await gateway.stop();
    const log = gateway.stdout() + gateway.stderr();
    expect(log).toMatch(/"issuer":"company","reason":"ERR_JWT_EXPIRED exp"/);
    expect(log).toMatch(/"issuer":null,"reason":"no issuer of ours"/);
    for (const part of tokens.flatMap((each) => each.split('.'))) expect(log).not.toContain(part);
  });
});
