import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Callgate, type CallgateError, type CallgateOptions } from '../../src/client/index.js';
import { type Act, credit, refusal, scriptedGateway } from './scripted-gateway.js';

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0));

const said = async (url: string, options: Partial<CallgateOptions> = {}): Promise<CallgateError> =>
  new Callgate({ url, key: 'cg_secret', attempts: 3, ...options }).call(credit).then(() => { throw new Error('it was answered'); }, (error: CallgateError) => error);

/** Whoever sets the client up wrongly has to find the mistake in the message, and never by sending again and again. */
describe('what is no gateway is said in words, at the first request', () => {
  const cases: [string, Act, RegExp][] = [
    ['a page', { body: '<html>hello</html>' }, /it answered 200 with text\/html; the address must be that of the agent listener/],
    ['a page that is not there', { status: 404, body: '<html>not found</html>' }, /404 with text\/html/],
    ['a login', { status: 302, headers: { location: 'https://login.test/' }, body: '' }, /a redirect to https:\/\/login\.test\//],
    ['another service', { body: { status: 'ok' } }, /200 with JSON that is no answer of a gateway/],
    ['a firewall', { status: 403, body: '<html>blocked</html>' }, /403 with text\/html/],
  ];
  it.each(cases)('%s', async (_, act, words) => {
    const server = await scriptedGateway(act);
    const error = await said(server.url);
    expect(error).toMatchObject({ name: 'CallgateError', code: 'NOT_A_GATEWAY', mayHaveHappened: false });
    expect(error.message).toMatch(words);
    expect(error.message).toContain(server.url);
    expect(server.got).toHaveLength(1);
  });

  it.each([
    ['UNAUTHENTICATED', 401, /the key is unknown, expired or revoked \(401\)/],
    ['WRONG_PLANE', 403, /the key does not work on this listener \(403\)/],
    ['ROUTE_NOT_FOUND', 404, /it has no path `POST \/v1\/calls` \(404\)/],
  ] as const)('%s', async (code, status, words) => {
    const server = await scriptedGateway({ body: refusal({ disposition: 'denied', next_action: 'abandon', status, code }), headers: { 'x-should-retry': 'false' } });
    const error = await said(server.url);
    expect(error).toMatchObject({ code, answer: { code }, mayHaveHappened: false });
    expect(error.message).toMatch(words);
    expect(error.message).not.toContain('cg_secret');
    expect(server.got).toHaveLength(1);
  });

  it('a redirect is not followed: the key goes nowhere else', async () => {
    const elsewhere = await scriptedGateway({ body: '' });
    const server = await scriptedGateway({ status: 307, headers: { location: elsewhere.url }, body: '' });
    expect((await said(server.url)).code).toBe('NOT_A_GATEWAY');
    expect(elsewhere.got).toHaveLength(0);
  });
});

describe('TLS', () => {
  // made for this test alone, and trusted by nobody
  const pem = readFileSync(new URL('self-signed.pem', import.meta.url));
  let secure: https.Server;
  let seen = 0;
  beforeAll(async () => {
    secure = https.createServer({ key: pem, cert: pem }, (_, response) => { seen++; response.end('{}'); });
    await new Promise<void>((resolve) => { secure.listen(0, '127.0.0.1', resolve); });
  });
  afterAll(() => void secure.close());

  it('a certificate that is not trusted', async () => {
    const error = await said(`https://127.0.0.1:${(secure.address() as AddressInfo).port}`);
    expect(error).toMatchObject({ code: 'TLS', mayHaveHappened: false });
    expect(error.message).toMatch(/its certificate is not trusted \(\w+\); Node takes a private authority from NODE_EXTRA_CA_CERTS/);
    expect(seen).toBe(0);
  });

  it('https where plain HTTP is spoken', async () => {
    const plain = http.createServer();
    await new Promise<void>((resolve) => { plain.listen(0, '127.0.0.1', resolve); });
    const error = await said(`https://127.0.0.1:${(plain.address() as AddressInfo).port}`);
    plain.close();
    expect(error).toMatchObject({ code: 'TLS', mayHaveHappened: false });
    expect(error.message).toContain('if it speaks plain HTTP there, the address begins with http:');
  });
});

describe('options that cannot work are said at once', () => {
  const good: CallgateOptions = { url: 'http://127.0.0.1:8080', key: 'cg_key' };
  it.each<[Partial<CallgateOptions>, RegExp]>([
    [{ url: '127.0.0.1:8080' }, /`url` is|begins with/], [{ url: 'ftp://a.test' }, /must begin with http/], [{ url: 'http://u:p@a.test' }, /has a user/],
    [{ key: '' }, /`key` is empty/], [{ key: 'cg_secret\n' }, /line breaks/], [{ attempts: 0 }, /`attempts` is 0/], [{ timeoutMs: Number.NaN }, /`timeoutMs` is NaN/], [{ elapsedMs: -1 }, /`elapsedMs` is -1/],
  ])('%j', (wrong, words) => {
    const made = (): unknown => new Callgate({ ...good, ...wrong });
    expect(made).toThrow(words);
    expect(made).not.toThrow(/secret/);
  });

  it('an address below a path', async () => {
    const server = await scriptedGateway({ body: { tools: [] } });
    expect(await new Callgate({ url: `${server.url}/gate/`, key: 'cg_key' }).tools()).toEqual({ tools: [] });
    expect(server.got[0]?.path).toBe('/gate/v1/tools');
  });
});
