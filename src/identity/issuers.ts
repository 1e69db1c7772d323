/**
 * Who may issue tokens, and what their claims mean here: the file of `identity.issuers_file`. It is the operator's, unlike a contract, so it may
 * say where inside the network an issuer is.
 */
import { dirname, resolve } from 'node:path';
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { type Role, roles } from '../model.js';
import { combinesPlanes } from './api-keys.js';
import { readOperatorFile } from './operator-file.js';

/** Asymmetric ones: a key that is published can verify, and must never be one that could sign. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'] as const;
const defaultAlgorithms = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519'] as const;

const strict = { additionalProperties: false };
const text = Type.String({ minLength: 1, maxLength: 512 });
const texts = Type.Array(text, { minItems: 1, maxItems: 100 });
const duration = Type.String({ pattern: '^\\d{1,6}(s|m|h)$' });
const fromClaim = Type.Object({ claim: text }, strict);
const listOf = <T extends TSchema>(value: T) => Type.Union([fromClaim, Type.Object({ value }, strict)]);

const issuerSchema = Type.Object({
  name: Type.String({ pattern: '^[a-z][a-z0-9-]{0,62}$' }),
  issuer: text,
  jwks_url: Type.Optional(text),
  jwks_file: Type.Optional(text),
  allow_private: Type.Optional(Type.Union([Type.Boolean(), texts])),
  audience: Type.Union([text, texts]),
  algorithms: Type.Optional(Type.Array(Type.Union(algorithms.map((name) => Type.Literal(name))), { minItems: 1 })),
  typ: text,
  clock_tolerance: Type.Optional(duration),
  max_age: Type.Optional(duration),
  keys_kept: Type.Optional(duration),
  claims: Type.Object({
    tenant: Type.Union([Type.Object({ claim: text, allowed: Type.Optional(texts) }, strict), Type.Object({ value: text }, strict)]),
    principal: Type.Optional(Type.Object({ claim: text, prefix: Type.Optional(text) }, strict)),
    roles: Type.Optional(Type.Union([
      Type.Object({ claim: text, allowed: Type.Array(Type.Union(roles.map((role) => Type.Literal(role))), { minItems: 1 }) }, strict),
      Type.Object({ value: Type.Array(Type.Union(roles.map((role) => Type.Literal(role))), { minItems: 1 }) }, strict),
    ])),
    subject: Type.Optional(fromClaim),
    purposes: Type.Optional(listOf(texts)),
    tools: Type.Optional(listOf(texts)),
  }, strict),
  grants: Type.Optional(Type.Object({ own_keys: Type.Optional(Type.Boolean()), assert_subject: Type.Optional(Type.Boolean()) }, strict)),
}, strict);
const fileSchema = Type.Object({ issuers: Type.Array(issuerSchema, { minItems: 1, maxItems: 50 }) }, strict);

export type Claims = Static<typeof issuerSchema>['claims'];

export interface Issuer {
  readonly name: string;
  /** Compared with `iss`, character by character. */
  readonly issuer: string;
  readonly keys: { readonly url: string } | { readonly file: string };
  /** As the egress guard has it; null: only public addresses. */
  readonly allowPrivate: 'inside' | readonly string[] | null;
  readonly audience: readonly string[];
  readonly algorithms: readonly string[];
  readonly typ: string;
  readonly clockToleranceMs: number;
  /** Null: `exp` alone bounds a token. */
  readonly maxAgeMs: number | null;
  /** How long keys are used when they can no longer be fetched. */
  readonly keysKeptMs: number;
  readonly claims: Claims;
  readonly grants: { readonly ownKeys: boolean; readonly assertSubject: boolean };
}

/** @throws Error with everything that is wrong, in words for the operator */
export function readIssuers(file: string): Issuer[] {
  const content = readOperatorFile(file, fileSchema, { setting: 'identity.issuers_file', what: 'issuers', page: 'docs/identity.md' });
  const issuers = content.issuers.map((source) => readIssuer(source, dirname(file)));
  const problems = [...content.issuers.flatMap(problemsOf), ...together(issuers, content.issuers)];
  if (problems.length > 0) throw new Error(`${file} cannot be used:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  return issuers;
}

type Source = Static<typeof issuerSchema>;

function problemsOf(source: Source): string[] {
  const { name, jwks_url, jwks_file, allow_private, claims } = source;
  const given = claims.roles && 'value' in claims.roles ? claims.roles.value : [];
  if (combinesPlanes(given)) return [`the roles of \`${name}\` combine \`agent\` with another one, which opens neither listener`];
  if ((jwks_url === undefined) === (jwks_file === undefined)) return [`\`${name}\` needs one of \`jwks_url\` and \`jwks_file\``];
  if (jwks_url === undefined) return [];
  const url = URL.canParse(jwks_url) ? new URL(jwks_url) : null;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.hash !== '') return [`\`jwks_url\` of \`${name}\` is not an https URL without credentials and fragment`];
  // Whoever can change what comes back can sign anything.
  if (url.protocol === 'http:' && !allow_private) return [`\`jwks_url\` of \`${name}\` is not https; plain http is for what \`allow_private\` lets be inside the network`];
  return [];
}

function together(issuers: readonly Issuer[], sources: readonly Source[]): string[] {
  const twice = (values: readonly string[], what: string): string[] => values.filter((value, at) => values.indexOf(value) !== at).map((value) => `two issuers have the ${what} \`${value}\``);
  const anyTenant = sources.filter(({ claims: { tenant } }) => 'claim' in tenant && tenant.allowed === undefined);
  return [
    ...twice(issuers.map(({ name }) => name), 'name'), ...twice(issuers.map(({ issuer }) => issuer), 'issuer'),
    ...(issuers.length > 1 ? anyTenant.map(({ name }) => `\`${name}\` could name the tenants of another issuer: list its own under \`claims.tenant.allowed\``) : []),
  ];
}

function readIssuer(source: Source, folder: string): Issuer {
  const { allow_private } = source;
  return {
    name: source.name,
    issuer: source.issuer,
    keys: source.jwks_url === undefined ? { file: resolve(folder, source.jwks_file ?? '') } : { url: source.jwks_url },
    allowPrivate: Array.isArray(allow_private) ? allow_private : allow_private ? 'inside' : null,
    audience: Array.isArray(source.audience) ? source.audience : [source.audience],
    algorithms: source.algorithms ?? defaultAlgorithms,
    typ: source.typ,
    clockToleranceMs: measure(source.clock_tolerance ?? '30s'),
    maxAgeMs: source.max_age === undefined ? null : measure(source.max_age),
    keysKeptMs: measure(source.keys_kept ?? '1h'),
    claims: source.claims,
    grants: { ownKeys: source.grants?.own_keys ?? false, assertSubject: source.grants?.assert_subject ?? false },
  };
}

function measure(written: string): number {
  const unit = { s: 1_000, m: 60_000, h: 3_600_000 }[written.at(-1) as 's' | 'm' | 'h'];
  return Number(written.slice(0, -1)) * unit;
}

/** What an issuer may make of a caller where it says nothing: somebody who can propose, and nothing more. */
export const defaultRoles: readonly Role[] = ['agent'];
