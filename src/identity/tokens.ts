/**
 * JWTs of configured issuers to principals. A token is refused for whatever it lacks, without a word of why to its bearer; the operator is told
 * the reason, and never the token.
 */
import { decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { CredentialsUnavailable } from '../errors.js';
import type { Authenticator } from '../ports.js';
import { principalOfClaims } from './claims.js';
import type { Issuer } from './issuers.js';

export interface TokenIssuer { readonly issuer: Issuer; readonly keys: JWTVerifyGetKey }

export interface TokenOptions {
  issuers: readonly TokenIssuer[];
  /** Wall clock in milliseconds. */
  now?: () => number;
  /** @param issuer the name of ours, or null where the token names none of them */
  refused?(issuer: string | null, reason: string): void;
}

const maxTokenBytes = 8_192;
/** Compact form, and each part the only base64url of its bytes: a decoder is kinder, and would read one token in several ways. */
const shape = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

/** An API key has no dot. */
export function looksLikeToken(credential: string): boolean {
  return credential.includes('.');
}

export function createTokenAuthenticator({ issuers, now = Date.now, refused }: TokenOptions): Authenticator {
  return {
    async authenticate(token) {
      const known = issuers.find(({ issuer }) => issuer.issuer === claimedIssuer(token));
      if (!known) {
        refused?.(null, 'no issuer of ours');
        return null;
      }
      try {
        const principal = principalOfClaims(await verify(token, known, now()), known.issuer);
        if (!('lacks' in principal)) return principal;
        refused?.(known.issuer.name, `no usable ${principal.lacks}`);
      } catch (error) {
        if (error instanceof CredentialsUnavailable) throw error;
        refused?.(known.issuer.name, reasonOf(error));
      }
      return null;
    },
  };
}

/**
 * Signature first, then claims. The key comes from the issuer's own set alone: `jwk`, `jku`, `x5u` and `x5c` of a token are read by nobody, and
 * `crit` refuses it. @throws jose's errors; CredentialsUnavailable
 */
export async function verify(token: string, { issuer, keys }: TokenIssuer, nowMs: number): Promise<JWTPayload> {
  if (!isShaped(token)) throw new errors.JWSInvalid('not a compact token within the bounds');
  const { payload } = await jwtVerify(token, keys, {
    issuer: issuer.issuer, audience: [...issuer.audience], algorithms: [...issuer.algorithms], typ: issuer.typ, requiredClaims: ['exp'],
    clockTolerance: issuer.clockToleranceMs / 1000, currentDate: new Date(nowMs), ...(issuer.maxAgeMs === null ? {} : { maxTokenAge: issuer.maxAgeMs / 1000 }),
  });
  return payload;
}

/** Not proven: it says only whose keys to try. */
function claimedIssuer(token: string): unknown {
  if (!isShaped(token)) return undefined;
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

function isShaped(token: string): boolean {
  return token.length <= maxTokenBytes && shape.test(token) && token.split('.').every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);
}

/** jose's codes and the name of a claim; never its value. */
function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired) return `${error.code} ${error.claim}`;
  return error instanceof errors.JOSEError ? error.code : 'the key cannot be used';
}
