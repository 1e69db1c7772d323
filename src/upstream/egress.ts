/**
 * Where the gateway connects to at all. A host is resolved once for each connection, inside the connect itself: the addresses that were
 * checked are the ones that the socket tries, so a name that resolves otherwise the next time (DNS rebinding) gains nothing.
 */
import { lookup as systemLookup, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { type AddressKind, type AddressRange, isWithin, kindOf, readRange } from './addresses.js';

/** `inside`: loopback and private addresses. Ranges: what lies in them, of whatever kind. Both by the name of the upstream. */
export type AllowedUpstreams = ReadonlyMap<string, 'inside' | readonly AddressRange[]>;

/**
 * `retail payments=10.1.0.0/16,fd00::/8`, with spaces between: the names of upstreams whose addresses may lie inside the network, each with
 * the ranges in which it is found where they are known. @throws RangeError
 */
export function readAllowedUpstreams(text: string | null): AllowedUpstreams {
  const entries = (text ?? '').split(/ +/).filter((entry) => entry !== '');
  return new Map(entries.map((entry) => {
    const [name = '', ranges] = entry.split(/=(.*)/s);
    return [name, ranges === undefined ? ('inside' as const) : ranges.split(',').map(readRange)];
  }));
}

export type Resolve = (host: string) => Promise<LookupAddress[]>;

export interface EgressOptions {
  allowed: AllowedUpstreams;
  /** Default: the resolver of the system. */
  resolve?: Resolve | undefined;
  /** Told of every connection that was not made. */
  refused?(service: string, host: string, kind: AddressKind): void;
}

export interface Egress {
  /** What stands against an origin, as far as it can be told without asking for its name; null when nothing does. */
  problem(service: string, origin: string): string | null;
  connector(service: string, timeoutMs: number): buildConnector.connector;
}

/** A connection that the guard does not make. Not a byte has left. */
export class EgressRefused extends Error {
  readonly code = 'ERR_EGRESS_REFUSED';
  constructor(readonly kind: AddressKind) {
    super(`the address is ${kind}, and the operator has not allowed it`);
  }
}

export function openEgress({ allowed, resolve = resolveBySystem, refused }: EgressOptions): Egress {
  const admits = (service: string, address: string): boolean => admitted(allowed.get(service), address);

  const checked = async (service: string, host: string): Promise<LookupAddress[]> => {
    const found = await resolve(host);
    const fine = found.filter(({ address }) => admits(service, address));
    if (found.length > 0 && fine.length === 0) throw refusal(service, host, found[0]!.address);
    return fine;
  };
  const refusal = (service: string, host: string, address: string): EgressRefused => {
    const kind = kindOf(address);
    refused?.(service, host, kind);
    return new EgressRefused(kind);
  };

  return {
    problem: (service, origin) => {
      const literal = literalOf(new URL(origin).hostname);
      return literal === null || admits(service, literal) ? null : inWords(service, literal);
    },
    connector(service, timeoutMs) {
      const connect = buildConnector({ timeout: timeoutMs, allowH2: false, lookup: asLookup((host) => checked(service, host)) });
      return (options, done) => {
        const host = options.hostname.replace(/^\[|\]$/g, '');
        // A socket looks up names only: for a literal, nobody would be asked.
        if (isIP(host) !== 0 && !admits(service, host)) {
          const error = refusal(service, host, host);
          process.nextTick(() => done(error, null));
          return;
        }
        connect(options, (error, socket) => {
          if (error) return done(error, null);
          const peer = socket.remoteAddress;
          if (peer !== undefined && admits(service, peer)) return done(null, socket);
          // Should a library of the future ask for the name by itself: nothing was written yet.
          const strayed = peer === undefined ? Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' }) : refusal(service, host, peer);
          socket.destroy();
          return done(strayed, null);
        });
      };
    },
  };
}

function admitted(rule: 'inside' | readonly AddressRange[] | undefined, address: string): boolean {
  const kind = kindOf(address);
  if (kind === 'public') return true;
  if (rule === undefined) return false;
  return rule === 'inside' ? kind === 'loopback' || kind === 'private' : rule.some((range) => isWithin(range, address));
}

/** The address that a host is without being asked for; a URL parser has made decimal, octal and hexadecimal ones plain. */
function literalOf(hostname: string): string | null {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return host;
  return /^(.*\.)?localhost\.?$/.test(host) ? '127.0.0.1' : null;
}

const plain: Record<AddressKind, string> = {
  public: 'a public address', loopback: 'an address of this machine', private: 'an address inside the network', link_local: 'a link-local address',
  metadata: 'an address at which a cloud tells credentials', multicast: 'a multicast address', unspecified: 'no address of anybody', reserved: 'a reserved address',
};

function inWords(service: string, address: string): string {
  const kind = kindOf(address);
  const entry = kind === 'loopback' || kind === 'private' ? service : `${service}=${address}`;
  return `\`${address}\`, where \`${service}\` is, is ${plain[kind]}, and no operator has allowed it: add \`${entry}\` to \`upstream.allow_private\` (CALLGATE_UPSTREAM_ALLOW_PRIVATE) if it belongs there`;
}

const resolveBySystem: Resolve = (host) =>
  new Promise((resolve, reject) => {
    systemLookup(host, { all: true }, (error, addresses) => (error ? reject(error) : resolve(addresses)));
  });

/** Asked once by each connect; of several addresses the socket tries one after another, and no other. */
function asLookup(checked: (host: string) => Promise<LookupAddress[]>): LookupFunction {
  return (host, { all }, done) => {
    const failed = (error: NodeJS.ErrnoException): void => done(error, '', 0);
    void checked(host).then((addresses) => {
      const [first] = addresses;
      if (!first) return failed(Object.assign(new Error('the name has no address'), { code: 'ENOTFOUND' }));
      return all ? done(null, addresses) : done(null, first.address, first.family);
    }, failed);
  };
}
