/** Every kind of credential that is configured, as one authenticator. */
import { readFile } from 'node:fs/promises';
import type { KeyStore } from './identity/api-keys.js';
import { createAuthenticator } from './identity/authenticator.js';
import { readCertificates } from './identity/certificates.js';
import { followFile } from './identity/followed-file.js';
import { type Issuer, readIssuers } from './identity/issuers.js';
import { keepKeys } from './identity/key-set.js';
import { createTokenAuthenticator, looksLikeToken, type TokenIssuer } from './identity/tokens.js';
import type { Authenticator } from './ports.js';
import { readRange } from './upstream/addresses.js';
import { type Egress, openEgress, type Resolve } from './upstream/egress.js';
import { fetchJson } from './upstream/fetch-json.js';

export interface AuthenticationOptions {
  pepper: string;
  store: KeyStore;
  keyCacheMs: number;
  issuersFile: string | null;
  certificatesFile: string | null;
  resolve?: Resolve | undefined;
  log: Log;
}

interface Log { error(fields: object, message: string): void; warn(fields: object, message: string): void; debug(fields: object, message: string): void }

const fetchMs = 5_000;
const maxKeySetBytes = 256 * 1024;

/** @throws Error in words for the operator when the issuers cannot be used */
export function openAuthenticator({ pepper, store, keyCacheMs, issuersFile, certificatesFile, resolve, log }: AuthenticationOptions): Authenticator {
  const apiKeys = createAuthenticator({ pepper, store, cacheMs: keyCacheMs });
  const certificates = certificatesFile === null ? {} : { ofCertificate: ofCertificate(certificatesFile, keyCacheMs, log) };
  if (issuersFile === null) return { ...apiKeys, ...certificates };
  const issuers = readIssuers(issuersFile);
  const egress = guard(issuers, resolve, log);
  for (const { name, keys } of issuers) {
    if ('url' in keys && egress.problem(name, new URL(keys.url).origin) !== null) throw new Error(`${issuersFile}: \`jwks_url\` of \`${name}\` is an address inside the network; say \`allow_private\` there if it belongs there`);
  }
  const tokens = createTokenAuthenticator({
    issuers: issuers.map((issuer) => tokenIssuer(issuer, egress, log)),
    refused: (issuer, reason) => log.debug({ issuer, reason }, 'a token was refused'),
  });
  return { ...certificates, authenticate: (credential) => (looksLikeToken(credential) ? tokens : apiKeys).authenticate(credential) };
}

/** Asked at each request, so that what is revoked ends on connections that are open as well. */
function ofCertificate(file: string, lookMs: number, log: Log): NonNullable<Authenticator['ofCertificate']> {
  const failed = ({ message }: Error): void => log.error({ problem: message }, 'the changed file of certificates cannot be used: what it said before is in force, and nobody whom it revokes is');
  const whose = followFile(file, () => readCertificates(file), { lookMs, failed });
  return (certificate) => whose()(certificate);
}

/** An issuer is allowed inside the network by its own entry, which is the operator's. */
function guard(issuers: readonly Issuer[], resolve: Resolve | undefined, log: Log): Egress {
  const allowed = new Map(issuers.flatMap(({ name, allowPrivate }): [string, 'inside' | ReturnType<typeof readRange>[]][] =>
    allowPrivate === null ? [] : [[name, allowPrivate === 'inside' ? allowPrivate : allowPrivate.map(readRange)]]));
  return openEgress({
    allowed, resolve,
    refused: (issuer, host, kind) => log.warn({ issuer, host, address: kind }, 'the keys of an issuer are at an address that its `allow_private` does not allow: they were not fetched'),
  });
}

function tokenIssuer(issuer: Issuer, egress: Egress, log: Log): TokenIssuer {
  const { name, keys, keysKeptMs } = issuer;
  const load = 'file' in keys
    ? async (): Promise<unknown> => JSON.parse(await readFile(keys.file, 'utf8'))
    : (): Promise<unknown> => fetchJson(keys.url, { egress, name, timeoutMs: fetchMs, maxBytes: maxKeySetBytes });
  const failed = ({ message }: Error): void => log.warn({ issuer: name, problem: message }, 'the keys of an issuer could not be fetched; those at hand are used for `keys_kept`');
  return { issuer, keys: keepKeys({ load, keptMs: keysKeptMs, failed }) };
}
