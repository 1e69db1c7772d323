/** An address that is taken for a public one is a way into the network behind the gateway, or to the credentials of its machine. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AddressKind, isWithin, kindOf, readRange } from '../../src/upstream/addresses.js';

const cases: Record<Exclude<AddressKind, 'public'>, string[]> = {
  loopback: ['127.0.0.1', '127.255.255.255', '::1', '0:0:0:0:0:0:0:1'],
  private: ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '100.64.0.1', '100.127.255.255', 'fc00::1', 'fdff:ffff::1'],
  link_local: ['169.254.0.1', '169.254.255.255', 'fe80::1', 'fe80::1%eth0', 'febf::1'],
  metadata: ['169.254.169.254', '169.254.170.2', '100.100.100.200', '168.63.129.16', '192.0.0.192', 'fd00:ec2::254', 'fd20:ce::254'],
  multicast: ['224.0.0.1', '239.255.255.255', 'ff02::1'],
  unspecified: ['0.0.0.0', '0.1.2.3', '::'],
  reserved: ['255.255.255.255', '240.0.0.1', '192.0.2.1', '198.51.100.1', '203.0.113.1', '198.18.0.1', '192.88.99.1', '2001:db8::1', '2001::1', '3fff::1', 'fec0::1', '64:ff9b:1::1', '100::1', '4000::1'],
};
const publicOnes = ['1.1.1.1', '8.8.8.8', '172.15.255.255', '172.32.0.1', '100.63.255.255', '100.128.0.1', '11.0.0.1', '192.0.1.1', '2606:4700::1111', '2a00:1450:4001::1'];

const hex = (ipv4: string): string => {
  const [a = 0, b = 0, c = 0, d = 0] = ipv4.split('.').map(Number);
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
};
/** Every IPv6 form in which an IPv4 address can be carried past a check of plain ones. */
const carried = (ipv4: string): string[] => [
  `::ffff:${ipv4}`, `::ffff:${hex(ipv4)}`, `0:0:0:0:0:FFFF:${hex(ipv4)}`, `::ffff:0:${ipv4}`, `::ffff:0:${hex(ipv4)}`, `64:ff9b::${ipv4}`, `64:ff9b::${hex(ipv4)}`,
  `2002:${hex(ipv4)}::`, `2002:${hex(ipv4)}::1`,
];

describe('the kind of an address', () => {
  it.each(Object.entries(cases))('%s', (kind, addresses) => {
    for (const address of addresses) expect(kindOf(address), address).toBe(kind);
  });

  it('public, and only what is', () => {
    for (const address of publicOnes) expect(kindOf(address), address).toBe('public');
  });

  it('an IPv4 address keeps its kind in whatever IPv6 address carries it', () => {
    for (const ipv4 of [...Object.values(cases).flat(), ...publicOnes].filter((address) => !address.includes(':'))) {
      for (const address of carried(ipv4)) expect(kindOf(address), address).toBe(kindOf(ipv4));
    }
    const quads = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255)).map((parts) => parts.join('.'));
    fc.assert(fc.property(quads, (ipv4) => carried(ipv4).every((address) => kindOf(address) === kindOf(ipv4))), { numRuns: 300 });
    // compatible: deprecated, and still routed to IPv4 by some stacks
    for (const ipv4 of ['127.0.0.1', '10.0.0.1', '169.254.169.254']) expect(kindOf(`::${ipv4}`), ipv4).toBe(kindOf(ipv4));
  });

  it('what is no address is connected to by nobody', () => {
    for (const text of ['', 'localhost', '127.1', '0x7f000001', '2130706433', '017700000001', '127.0.0.1.', '1.1.1.1/32', ':::', 'example.test']) expect(kindOf(text), text).toBe('reserved');
  });
});

describe('a range', () => {
  it('holds what begins with its bits, in every form of the address', () => {
    const range = readRange('10.1.0.0/16');
    for (const address of ['10.1.0.0', '10.1.255.255', '::ffff:10.1.2.3', '64:ff9b::a01:203']) expect(isWithin(range, address), address).toBe(true);
    for (const address of ['10.0.255.255', '10.2.0.0', '::10', 'fd00::1', 'x']) expect(isWithin(range, address), address).toBe(false);
    expect(isWithin(readRange('fd00::/8'), 'fd12::1')).toBe(true);
    expect(isWithin(readRange('127.0.0.1'), '127.0.0.2')).toBe(false);
    expect(isWithin(readRange('0.0.0.0/0'), '203.0.113.9')).toBe(true);
  });

  it('is refused when it is none', () => {
    for (const text of ['', '10', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/8/8', '10.0.0.1/8', 'fd00::1/8', 'localhost', '10.0.0.0/x']) expect(() => readRange(text), text).toThrow(RangeError);
  });
});
