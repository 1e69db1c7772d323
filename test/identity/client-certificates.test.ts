/** A certificate is a credential that cannot be copied out of a log; taken for another's it opens that one's door. */
import { X509Certificate } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { loadConfig } from '../../src/config/index.js';
import { clientCertificate, followTls, readTls } from '../../src/http/tls.js';
import { readCertificates } from '../../src/identity/certificates.js';
import { projectFile } from '../../src/project.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';

const pem = (name: string): string => projectFile('test', 'identity', 'certificates', `${name}.pem`);
const folder = mkdtempSync(join(tmpdir(), 'callgate-certificates-'));
function table(entries: string): string {
  const file = join(folder, `${unique('table')}.yaml`);
  writeFileSync(file, `certificates:\n${entries}`);
  return file;
}
const whole = `
  - { match: { uri: "spiffe://acme.test/agent/refund" }, tenant: acme, principal: agent-1, subject: C-17, purposes: [refund], grants: { own_keys: true } }
  - { match: { email: auditor@acme.test }, tenant: acme, principal: auditor, roles: [auditor] }
`;

interface Answered { status: number; code: string | undefined; disposition: string | undefined; operationId: string | undefined; serial: string; reused: boolean }

/** One request, with a connection of its own unless an agent keeps one. */
function call(url: string, as: string | null, more: { key?: string; body?: object; agent?: Agent } = {}): Promise<Answered> {
  const identity = as === null ? {} : { cert: readFileSync(pem(as)), key: readFileSync(pem(as)) };
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      agent: more.agent ?? false, ca: readFileSync(pem('house')), ...identity, method: more.body ? 'POST' : 'GET',
      headers: { 'content-type': 'application/json', ...(more.key ? { authorization: `Bearer ${more.key}` } : {}) },
    }, (response) => {
      const serial = (response.socket as TLSSocket).getPeerCertificate().serialNumber;
      let text = '';
      response.on('data', (chunk: Buffer) => { text += chunk.toString(); }).on('end', () => {
        const { code, disposition, operation_id } = JSON.parse(text) as { code?: string; disposition?: string; operation_id?: string };
        resolve({ status: response.statusCode ?? 0, code, disposition, operationId: operation_id, serial, reused: sent.reusedSocket });
      });
    });
    sent.on('error', reject);
    sent.end(more.body ? JSON.stringify(more.body) : undefined);
  });
}

describe('a gateway whose listeners ask for certificates', () => {
  let house: House;
  let open: Opened;
  const tls = (plane: string): Record<string, string> => ({
    [`CALLGATE_${plane}_TLS_CERT_FILE`]: pem('server'), [`CALLGATE_${plane}_TLS_KEY_FILE`]: pem('server'), [`CALLGATE_${plane}_TLS_CLIENT_CA_FILE`]: pem('house'),
  });
  beforeAll(async () => {
    house = await openHouse();
    open = await openGateway(house, { ...tls('AGENT'), ...tls('CONTROL'), CALLGATE_IDENTITY_CERTIFICATES_FILE: table(whole) });
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
  });
  const tools = (as: string | null, key?: string): Promise<Answered> => call(`${open.gateway.agentUrl}/v1/tools`, as, key ? { key } : {});
  const receipts = (as: string | null): Promise<Answered> => call(`${open.gateway.controlUrl}/v1/receipts`, as);

  it('an agent proposes with a certificate as with its key, and both are one caller', async () => {
    expect(open.gateway.agentUrl).toMatch(/^https:/);
    const body = { session_id: unique('s'), call_id: 'c-1', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 2500, currency: 'GBP' } };
    const first = await call(`${open.gateway.agentUrl}/v1/calls`, 'agent', { body });
    expect(first).toMatchObject({ status: 200, disposition: 'executed' });
    expect(await call(`${open.gateway.agentUrl}/v1/calls`, null, { body, key: house.keys.agent })).toMatchObject({ disposition: 'replayed', operationId: first.operationId });
  });

  it('is held to its listener by its roles', async () => {
    expect(await receipts('auditor')).toMatchObject({ status: 200 });
    expect(await tools('auditor')).toMatchObject({ status: 403, code: 'WRONG_PLANE' });
    expect(await receipts('agent')).toMatchObject({ status: 403, code: 'WRONG_PLANE' });
  });

  it.each(['forged', 'expired', 'nobody', 'tricky', 'both', 'server'])('is nobody with the certificate `%s`', async (name) => {
    expect(await tools(name)).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' });
    expect(await receipts(name)).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' });
  });

  it('a header is believed or refused, and never made up for by the certificate', async () => {
    expect(await tools(null)).toMatchObject({ status: 401 });
    expect(await tools('nobody', house.keys.agent)).toMatchObject({ status: 200 });
    for (const bad of ['cg_aaaaaaaa_0123456789012345678901234567890123456789012', 'x']) expect(await tools('agent', bad)).toMatchObject({ status: 401 });
    expect((await call(`${open.gateway.controlUrl}/healthz`, null)).status).toBe(200);
  });

  it('may be asked for of everybody, and then no other credential gets in without one', async () => {
    const strict = await openGateway(house, { ...tls('AGENT'), CALLGATE_AGENT_TLS_CLIENT_REQUIRED: 'true', CALLGATE_IDENTITY_CERTIFICATES_FILE: table(whole) });
    try {
      const url = `${strict.gateway.agentUrl}/v1/tools`;
      for (const as of [null, 'forged', 'expired']) await expect(call(url, as, { key: house.keys.agent }), String(as)).rejects.toThrow();
      expect(await call(url, 'nobody', { key: house.keys.agent })).toMatchObject({ status: 200 });
      expect(await call(url, 'agent')).toMatchObject({ status: 200 });
    } finally {
      await strict.gateway.close();
    }
  });
});

/** A key that is lost opens its door until somebody restarts every gateway, unless it can be shut where it is. */
describe('a certificate that is revoked', () => {
  let house: House;
  let open: Opened;
  let file: string;
  const logged: string[] = [];
  const { serialNumber, fingerprint256 } = new X509Certificate(readFileSync(pem('agent')));
  beforeAll(async () => {
    house = await openHouse();
    file = table(whole);
    vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => logged.push(String(chunk)) > 0);
    const files = { CALLGATE_AGENT_TLS_CERT_FILE: pem('server'), CALLGATE_AGENT_TLS_KEY_FILE: pem('server'), CALLGATE_AGENT_TLS_CLIENT_CA_FILE: pem('house') };
    open = await openGateway(house, { ...files, CALLGATE_IDENTITY_CERTIFICATES_FILE: file, CALLGATE_IDENTITY_KEY_CACHE: '20ms' });
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
    vi.restoreAllMocks();
  });
  const url = (): string => `${open.gateway.agentUrl}/v1/tools`;
  const write = (text: string): void => writeFileSync(file, `certificates:${text}`);

  it.each([
    ['by its serial number', `${whole}revoked:\n  - { serial: "${serialNumber}" }\n`],
    ['by its serial number as openssl prints it', `${whole}revoked:\n  - { serial: "00:${serialNumber.toLowerCase().match(/../g)?.join(':')}" }\n`],
    ['by its fingerprint', `${whole}revoked:\n  - { fingerprint256: "${fingerprint256}" }\n`],
  ])('%s opens nothing any more, with whatever else it comes and over connections that are open; and another of the same names does', async (_, revoked) => {
    const kept = new Agent({ keepAlive: true, maxSockets: 1 });
    write(whole);
    await expect.poll(() => call(url(), 'agent', { agent: kept }).then(({ status }) => status), { timeout: 5_000 }).toBe(200);
    write(revoked);
    await expect.poll(() => call(url(), 'agent').then(({ status }) => status), { timeout: 5_000 }).toBe(401);
    expect(await call(url(), 'agent', { agent: kept })).toMatchObject({ status: 401, reused: true });
    expect(await call(url(), 'agent', { key: house.keys.agent })).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' });
    expect(await call(url(), null, { key: house.keys.agent })).toMatchObject({ status: 200 });
    expect(await call(url(), 'nobody', { key: house.keys.agent })).toMatchObject({ status: 200 });
    kept.destroy();
  });

  it('or that is taken out of the table; and a table that cannot be used changes nothing, and is told once', async () => {
    write(whole);
    await expect.poll(() => call(url(), 'agent').then(({ status }) => status), { timeout: 5_000 }).toBe(200);
    write(`${whole}revoked: [{ serial: "no number" }]\n`);
    await expect.poll(() => call(url(), 'agent').then(() => logged.filter((line) => line.includes('the changed file of certificates cannot be used')).length), { timeout: 5_000 }).toBe(1);
    rmSync(file);
    await expect.poll(() => call(url(), 'agent').then(() => logged.filter((line) => line.includes('ENOENT')).length), { timeout: 5_000 }).toBe(1);
    expect(await call(url(), 'agent')).toMatchObject({ status: 200 });
    write('\n  - { match: { email: auditor@acme.test }, tenant: acme, principal: auditor, roles: [auditor] }\n');
    await expect.poll(() => call(url(), 'agent').then(({ status }) => status), { timeout: 5_000 }).toBe(401);
  });
});

describe('the files of a listener', () => {
  it('say anew whose client certificates are believed, for connections that are opened then', async () => {
    const { createServer } = await import('node:https');
    const authorities = join(folder, 'authorities.pem');
    copyFileSync(pem('house'), authorities);
    const files = { certFile: pem('server'), keyFile: pem('server'), clientCaFile: authorities, clientRequired: false };
    const server = createServer(readTls(files), ({ socket }, response) => response.writeHead(clientCertificate(socket) ? 200 : 401).end('{}'));
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    const url = `https://localhost:${(server.address() as { port: number }).port}/`;
    const stop = followTls(server, files, 20, () => undefined);
    const statuses = () => Promise.all(['agent', 'forged'].map((as) => call(url, as).then(({ status }) => status)));
    try {
      expect(await statuses()).toEqual([200, 401]);
      writeFileSync(authorities, readFileSync(pem('house'), 'utf8') + readFileSync(pem('stranger'), 'utf8'));
      await expect.poll(statuses).toEqual([200, 200]); // while one replaces the other
      copyFileSync(pem('stranger'), authorities);
      await expect.poll(statuses).toEqual([401, 200]);
    } finally {
      stop();
      server.close();
    }
  });

  it('are read again while it runs, and stay as they were when they cannot be used', async () => {
    const { createServer } = await import('node:https');
    const file = join(folder, 'served.pem');
    copyFileSync(pem('server'), file);
    const files = { certFile: file, keyFile: file, clientCaFile: pem('house'), clientRequired: false };
    const server = createServer(readTls(files), (_, response) => response.end('{}'));
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    const url = `https://localhost:${(server.address() as { port: number }).port}/`;
    const failures: Error[] = [];
    const stop = followTls(server, files, 20, (error) => void failures.push(error));
    try {
      const { serial } = await call(url, null);
      writeFileSync(file, 'no certificate');
      await expect.poll(() => failures.length).toBeGreaterThan(0);
      expect((await call(url, null)).serial).toBe(serial);
      copyFileSync(pem('agent'), file);
      // another certificate by now, which is none of a server's
      await expect.poll(() => call(url, null).then(() => 'served', (error: NodeJS.ErrnoException) => error.code)).toBe('INVALID_PURPOSE');
    } finally {
      stop();
      server.close();
    }
  });

  it('belong together, or nothing starts', () => {
    const problems = (env: Record<string, string>): string[] => {
      const loaded = loadConfig({ env, folder: '/nowhere' });
      return 'problems' in loaded ? loaded.problems.map(({ message }) => message) : [];
    };
    expect(problems({ CALLGATE_AGENT_TLS_CERT_FILE: 'a' })).toEqual([expect.stringContaining('belong together')]);
    expect(problems({ CALLGATE_CONTROL_TLS_CLIENT_CA_FILE: 'a' })).toEqual([expect.stringContaining('has no effect without TLS')]);
    expect(problems({ CALLGATE_AGENT_TLS_CLIENT_REQUIRED: 'true' })).toEqual([expect.stringContaining('would let nobody in')]);
    expect(problems({ CALLGATE_IDENTITY_CERTIFICATES_FILE: 'a' })).toEqual([expect.stringContaining('no listener asks')]);
    expect(() => readTls({ certFile: join(folder, 'none'), keyFile: 'none', clientCaFile: null, clientRequired: false })).toThrow('cannot be read: ENOENT');
  });
});

describe('the table of certificates', () => {
  const named = (subjectAltName: string, more = {}) => ({ subject: 'O=Acme\nCN=x', subjectAltName, fingerprint256: 'AA', serialNumber: '01', validFrom: 'Jan  1 00:00:00 2020 GMT', validTo: 'Jan  1 00:00:00 2120 GMT', ...more });

  it('compares whole names: of the kind that it says, and none that is inside another', () => {
    const whose = readCertificates(table(whole));
    expect(whose(named('DNS:other.test, URI:spiffe://acme.test/agent/refund'))).toMatchObject({ tenant: 'acme', id: 'agent-1', roles: ['agent'], subject: 'C-17', tools: '*', grants: { ownKeys: true, assertSubject: false } });
    for (const other of [
      'DNS:spiffe://acme.test/agent/refund', 'URI:spiffe://acme.test/agent/refund/x', 'URI:spiffe://acme.test/agent/refun', 'URI:SPIFFE://acme.test/agent/refund', 'URI:"x, URI:spiffe://acme.test/agent/refund"',
      'URI:"x\\", URI:spiffe://acme.test/agent/refund"', 'DNS:x, othername:URI:spiffe://acme.test/agent/refund', '',
    ]) expect(whose(named(other)), other).toBeNull();
  });

  it('by subject or fingerprint as well; not before its time, nor after it', () => {
    const bytes = Array.from({ length: 32 }, () => 'AB').join(':');
    const whose = readCertificates(table(`  - { match: { subject: [O=Acme, CN=bot] }, tenant: acme, principal: a }\n  - { match: { fingerprint256: "${bytes}" }, tenant: acme, principal: b }\n`));
    expect(whose(named('', { subject: 'O=Acme\nCN=bot' }))).toMatchObject({ id: 'a' });
    expect(whose(named('', { fingerprint256: bytes }))).toMatchObject({ id: 'b' });
    expect(whose(named('', { subject: 'O=Acme\nCN=bot', fingerprint256: bytes }))).toBeNull();
    for (const at of ['2019-12-31T23:59:59Z', '2120-01-01T00:00:01Z']) expect(whose(named('', { fingerprint256: bytes }), Date.parse(at))).toBeNull();
    expect(whose(named('', { fingerprint256: bytes, validTo: 'never' }))).toBeNull();
  });

  it.each([
    ['  - { match: { cn: bot }, tenant: acme, principal: a }', /match/], ['  - { match: { uri: a, dns: b }, tenant: acme, principal: a }', /match/], ['  - { match: { uri: a }, principal: a }', /tenant/],
    ['  - { match: { uri: a }, tenant: acme, principal: a, roles: [agent, admin] }', /create two keys|no other role/], ['  - { match: { uri: a }, tenant: acme, principal: "a\\nb" }', /principal/],
    ['  - { match: { uri: a }, tenant: acme, principal: a }\n  - { match: { uri: a }, tenant: globex, principal: a }', /listed twice/], ['  []', /certificates/],
  ])('is refused whole: %s', (entries, message) => {
    expect(() => readCertificates(table(`${entries}\n`))).toThrow(message);
  });
});
