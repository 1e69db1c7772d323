/**
 * What an address is, whatever form it was written in. Deny by default: only what IANA assigned as globally reachable is `public`; an IPv4
 * address inside an IPv6 one (mapped, compatible, translated, NAT64, 6to4) is judged as what it is inside.
 */
import { isIP } from 'node:net';

export type AddressKind = 'public' | 'loopback' | 'private' | 'link_local' | 'metadata' | 'multicast' | 'unspecified' | 'reserved';

/** 4 or 16 bytes. */
type Bytes = readonly number[];

export interface AddressRange {
  readonly text: string;
  readonly bytes: Bytes;
  readonly bits: number;
}

/** `10.0.0.0/8`, `fd00::/8`, or one address. @throws RangeError when it is neither, or has bits beyond its length. */
export function readRange(text: string): AddressRange {
  const [address = '', length, ...rest] = text.split('/');
  const bytes = bytesOf(address);
  const bits = length === undefined ? (bytes?.length ?? 0) * 8 : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN;
  if (!bytes || rest.length > 0 || !(bits <= bytes.length * 8)) throw new RangeError(`\`${text}\` is not an address range such as 10.0.0.0/8`);
  const range = { text, bytes, bits };
  if (bytes.some((byte, at) => (byte & ~maskOf(bits, at) & 0xff) !== 0)) throw new RangeError(`\`${text}\` has bits beyond its length`);
  return range;
}

/** @param address an IP address. What it holds inside counts. */
export function isWithin(range: AddressRange, address: string): boolean {
  const bytes = bytesOf(address);
  return bytes !== null && contains(range, innermost(bytes));
}

/** Text that is no IP address is `reserved`: nobody connects to it. */
export function kindOf(address: string): AddressKind {
  const bytes = bytesOf(address);
  if (!bytes) return 'reserved';
  const inner = innermost(bytes);
  const found = table.find(([range]) => contains(range, inner));
  if (found) return found[1];
  return inner.length === 4 ? 'public' : 'reserved';
}

const kinds: readonly [AddressKind, string][] = [
  // Clouds answer anybody on the machine here, with credentials. Some lie in ranges that are otherwise private, or even public.
  ['metadata', '169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 192.0.0.192 168.63.129.16 fd00:ec2::254 fd00:ec2::23 fd20:ce::254'],
  ['unspecified', '0.0.0.0/8 ::/128'],
  ['loopback', '127.0.0.0/8 ::1/128'],
  ['private', '10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7'],
  ['link_local', '169.254.0.0/16 fe80::/10'],
  ['multicast', '224.0.0.0/4 ff00::/8'],
  ['reserved', '192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20'],
  ['public', '2000::/3'],
];
const table: readonly [AddressRange, AddressKind][] = kinds.flatMap(([kind, ranges]) =>
  ranges.split(' ').map((range): [AddressRange, AddressKind] => [readRange(range), kind]));

/** Where an IPv6 address carries an IPv4 one: RFC 4291 (mapped, compatible), RFC 2765 (translated), RFC 6052 (NAT64), RFC 3056 (6to4). */
const carriers: readonly [AddressRange, number][] =
  ([['::ffff:0:0/96', 12], ['::/96', 12], ['::ffff:0:0:0/96', 12], ['64:ff9b::/96', 12], ['2002::/16', 2]] as const).map(([range, at]) => [readRange(range), at]);
const ownIpv6 = ['::/128', '::1/128'].map(readRange);

function innermost(bytes: Bytes): Bytes {
  if (bytes.length === 4 || ownIpv6.some((range) => contains(range, bytes))) return bytes;
  const carrier = carriers.find(([range]) => contains(range, bytes));
  return carrier ? bytes.slice(carrier[1], carrier[1] + 4) : bytes;
}

function contains({ bytes: start, bits }: AddressRange, bytes: Bytes): boolean {
  return bytes.length === start.length && bytes.every((byte, at) => ((byte ^ start[at]!) & maskOf(bits, at)) === 0);
}

function maskOf(bits: number, at: number): number {
  const here = Math.min(8, Math.max(0, bits - at * 8));
  return (0xff << (8 - here)) & 0xff;
}

function bytesOf(text: string): Bytes | null {
  const [address = ''] = text.split('%'); // a zone says by which interface, not what
  const family = isIP(address);
  if (family === 4) return address.split('.').map(Number);
  // A URL parser writes each form of one IPv6 address in the same way.
  return family === 6 ? groups(new URL(`http://[${address}]/`).hostname.slice(1, -1)).flatMap((group) => [group >> 8, group & 0xff]) : null;
}

function groups(canonical: string): number[] {
  const [head, tail] = canonical.split('::').map((part) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))));
  if (!tail) return head!;
  return [...head!, ...new Array<number>(8 - head!.length - tail.length).fill(0), ...tail];
}
