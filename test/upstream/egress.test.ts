/**
 * Who may write a contract, or answer for a name in one, must not choose where in the network the gateway goes: behind it are the machine's own
 * services, the credentials that a cloud tells, and the tools of everybody else.
 */
import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AddressKind } from '../../src/upstream/addresses.js';
import { openEgress, readAllowedUpstreams, type Resolve } from '../../src/upstream/egress.js';
import type { Exchange, Upstream } from '../../src/upstream/exchange.js';
import { createUpstream } from '../../src/upstream/sender.js';
import { FaultServer, mintAttempt, noCredentials, planFor, post, reply } from './fault-server.js';

let server: FaultServer;
let upstream: Upstream | undefined;
let told: [string, string, AddressKind][];

beforeEach(async () => {
  server = await FaultServer.start();
  told = [];
});
afterEach(async () => {
  await server.close();
  await upstream?.close();
  upstream = undefined;
});

function open(allow: string | null, resolve?: Resolve): Upstream {
  const egress = openEgress({ allowed: readAllowedUpstreams(allow), resolve, refused: (...refused) => void told.push(refused) });
  upstream = createUpstream({ credentials: noCredentials, egress, maxResponseBytes: 64 * 1024, maxHeaderBytes: 8 * 1024 });
  return upstream;
}
/** As a contract's address becomes an origin. */
const send = (sender: Upstream, base: string, service = 'retail'): Promise<Exchange> => {
  const origin = new URL(base).origin;
  return sender.send(post(origin), { upstream: planFor(origin, { service }), attempt: mintAttempt(), deadlineMs: 2000 });
};
const refused = { kind: 'failure', sent: false, reason: 'address_refused', ms: expect.any(Number) as number };

describe('case-48: without a word of the operator', () => {
  it.each([
    '127.0.0.1', '127.1', '2130706433', '0x7f000001', '0x7f.1', '017700000001', '0177.0.0.1', '127.0.0.1.', '[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::127.0.0.1]',
    '[64:ff9b::7f00:1]', '[2002:7f00:1::]', '0.0.0.0', '0', '[::]', '169.254.169.254', '2852039166', '[::ffff:a9fe:a9fe]', '[fd00:ec2::254]', '[fe80::1]', '10.0.0.1', '192.168.0.1', '[fc00::1]',
    '224.0.0.1', '[ff02::1]', '255.255.255.255', '%31%32%37.0.0.1', '１２７.0.0.1', '127。0。0。1',
  ])('nothing goes to http://%s', async (host) => {
    expect(await send(open(null), `http://${host}:${server.port}`)).toEqual(refused);
    expect(server.connections).toBe(0);
    expect(told).toHaveLength(1);
  });

  it('nor to a name that leads there, over plain HTTP or TLS, whatever else it leads to', async () => {
    for (const scheme of ['http', 'https']) {
      expect(await send(open(null, async () => [{ address: '10.0.0.1', family: 4 }, { address: '::ffff:127.0.0.1', family: 6 }]), `${scheme}://shop.test:${server.port}`)).toEqual(refused);
    }
    expect(await send(open(null), `http://localhost:${server.port}`)).toEqual(refused);
    expect(server.connections).toBe(0);
  });

  it('the operator is told of service, host and kind, and the caller of none', async () => {
    await send(open(null, async () => [{ address: '169.254.169.254', family: 4 }]), 'http://shop.test');
    expect(told).toEqual([['retail', 'shop.test', 'metadata']]);
  });
});

describe('with it', () => {
  it('a named service is connected to inside the network, and no other service is', async () => {
    const sender = open('retail billing');
    expect(await send(sender, server.origin)).toMatchObject({ kind: 'response', status: 200 });
    expect(await send(sender, server.origin, 'mail')).toEqual(refused);
    expect(server.connections).toBe(1);
  });

  it('a name alone does not open what no service is at: metadata, link-local, multicast, unspecified', async () => {
    const sender = open('retail');
    for (const host of ['169.254.169.254', '[fd00:ec2::254]', '[fe80::1]', '0.0.0.0', '[::]', '224.0.0.1', '240.0.0.1']) expect(await send(sender, `http://${host}:${server.port}`), host).toEqual(refused);
    expect(server.connections).toBe(0);
  });

  it('a range opens itself and nothing beside it', async () => {
    expect(await send(open('retail=127.0.0.1'), server.origin)).toMatchObject({ kind: 'response' });
    await upstream?.close();
    const sender = open('retail=127.0.0.2,10.0.0.0/8');
    expect(await send(sender, server.origin)).toEqual(refused);
    expect(await send(sender, `http://127.0.0.2:${server.port}`)).toMatchObject({ kind: 'failure', reason: 'refused' });
  });

  it('of several addresses only those that are allowed are tried', async () => {
    const sender = open('retail=127.0.0.1', async () => [{ address: '127.0.0.2', family: 4 }, { address: '169.254.169.254', family: 4 }, { address: '127.0.0.1', family: 4 }]);
    expect(await send(sender, `http://shop.test:${server.port}`)).toMatchObject({ kind: 'response', status: 200 });
    expect(server.connections).toBe(1);
  });

  it('is text that can be read, or no gateway', () => {
    for (const text of ['retail=10.0.0.1/8', 'retail=', 'retail=localhost', 'retail=10.0.0.0/8,']) expect(() => readAllowedUpstreams(text), text).toThrow(RangeError);
  });
});

describe('case-48: a name that is answered differently each time', () => {
  /** A DNS server that gives the addresses in turn, and counts how often it is asked. */
  async function rebinding(addresses: string[]) {
    const socket = createSocket('udp4');
    let asked = 0;
    socket.on('message', (query, from) => {
      const address = addresses[asked++ % addresses.length] as string;
      const end = query.indexOf(0, 12) + 5;
      const answer = Buffer.concat([
        query.subarray(0, 2), Buffer.from([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]), query.subarray(12, end),
        Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]),
      ]);
      socket.send(answer, from.port, from.address);
    });
    await once(socket.bind(0, '127.0.0.1'), 'listening');
    const resolver = new Resolver();
    resolver.setServers([`127.0.0.1:${(socket.address() as AddressInfo).port}`]);
    const resolve: Resolve = async (host) => (await resolver.resolve4(host)).map((address) => ({ address, family: 4 }));
    return { resolve, asked: () => asked, close: () => socket.close() };
  }

  it('is asked once for each connection, which goes to the address that was checked', async () => {
    const dns = await rebinding(['127.0.0.1', '127.0.0.9']);
    // A connection of its own for each request; the second listener is what an attacker is after.
    const inside = await FaultServer.start('127.0.0.9', server.port);
    server.onRequest = ({ socket }) => reply(socket, '{}', '200 OK', 'connection: close\r\n');
    const sender = open('retail=127.0.0.1', dns.resolve);
    const exchanges: Exchange[] = [];
    for (let n = 0; n < 6; n++) exchanges.push(await send(sender, `http://shop.test:${server.port}`));
    expect(exchanges.map((exchange) => (exchange.kind === 'response' ? 'answered' : exchange.reason))).toEqual(
      ['answered', 'address_refused', 'answered', 'address_refused', 'answered', 'address_refused']);
    expect([dns.asked(), server.connections, inside.connections]).toEqual([6, 3, 0]);
    dns.close();
    await inside.close();
  });

  it('the certificate is still asked for by the name, not by the address', async () => {
    let hello = Buffer.alloc(0);
    server.onConnection = (socket) => {
      socket.on('data', (chunk) => { hello = Buffer.concat([hello, chunk]); });
    };
    const sender = open('retail=127.0.0.1', async () => [{ address: '127.0.0.1', family: 4 }]);
    await sender.send(post(`https://shop.test:${server.port}`), { upstream: planFor(`https://shop.test:${server.port}`), attempt: mintAttempt(), deadlineMs: 300 });
    expect(hello.toString('latin1')).toContain('shop.test');
  });
});

describe('what can be told before anything is sent', () => {
  it('an address, however written, with the entry that would allow it; a name is asked for only when it is connected to', () => {
    const { problem } = openEgress({ allowed: readAllowedUpstreams('retail books=10.0.0.0/8'), resolve: () => Promise.reject(new Error('asked')) });
    expect(problem('mail', new URL('http://2130706433/').origin)).toMatch(/`127\.0\.0\.1`.*add `mail` to `upstream\.allow_private`/);
    expect(problem('mail', 'http://sub.localhost:80')).toContain('of this machine');
    expect(problem('retail', 'http://169.254.169.254')).toContain('add `retail=169.254.169.254`');
    expect(problem('books', 'http://192.168.0.1')).not.toBeNull();
    for (const [service, origin] of [['retail', 'http://127.0.0.1'], ['books', 'http://10.2.3.4'], ['mail', 'https://shop.test'], ['mail', 'https://1.1.1.1']] as const) {
      expect(problem(service, origin), origin).toBeNull();
    }
  });
});
