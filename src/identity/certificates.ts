/**
 * Client certificates to principals, by a table of the operator's. That a certificate is genuine the listener has proven, against the
 * authorities of its own; here it is only asked whose it is, and what is not listed is nobody's.
 */
import { type Static, Type } from '@sinclair/typebox';
import { type Principal, roles } from '../model.js';
import type { ClientCertificate } from '../ports.js';
import { describeKeyProblem } from './api-keys.js';
import { defaultRoles } from './issuers.js';
import { readOperatorFile } from './operator-file.js';

const strict = { additionalProperties: false };
const text = Type.String({ minLength: 1, maxLength: 512 });
const texts = Type.Array(text, { minItems: 1, maxItems: 100 });
const fingerprint = Type.String({ pattern: '^[0-9A-F]{2}(:[0-9A-F]{2}){31}$' });
const entrySchema = Type.Object({
  match: Type.Union([
    Type.Object({ uri: text }, strict), Type.Object({ dns: text }, strict), Type.Object({ email: text }, strict),
    Type.Object({ subject: texts }, strict), Type.Object({ fingerprint256: fingerprint }, strict),
  ]),
  tenant: text,
  principal: text,
  roles: Type.Optional(Type.Array(Type.Union(roles.map((role) => Type.Literal(role))), { minItems: 1 })),
  subject: Type.Optional(text),
  purposes: Type.Optional(texts),
  tools: Type.Optional(texts),
  grants: Type.Optional(Type.Object({ own_keys: Type.Optional(Type.Boolean()), assert_subject: Type.Optional(Type.Boolean()) }, strict)),
}, strict);
const serial = Type.String({ pattern: '^[0-9A-Fa-f]{1,2}(:?[0-9A-Fa-f]{2}){0,31}$' });
const revokedSchema = Type.Union([Type.Object({ fingerprint256: fingerprint }, strict), Type.Object({ serial }, strict)]);
const fileSchema = Type.Object({
  certificates: Type.Array(entrySchema, { minItems: 1, maxItems: 10_000 }),
  revoked: Type.Optional(Type.Array(revokedSchema, { maxItems: 10_000 })),
}, strict);

type Entry = Static<typeof entrySchema>;

/** @returns whose a proven certificate is: nobody's, or one that is to open nothing. @throws Error with what is wrong in the file, in words for the operator */
export function readCertificates(file: string): (certificate: ClientCertificate, nowMs?: number) => Principal | 'revoked' | null {
  const { certificates, revoked = [] } = readOperatorFile(file, fileSchema, { setting: 'identity.certificates_file', what: 'certificates', page: 'docs/identity.md' });
  const table = new Map<string, Principal>();
  for (const entry of certificates) {
    const name = nameOf(entry.match);
    const principal = principalOf(entry);
    const problem = describeKeyProblem({ ...principal, principal: principal.id, expiresAt: null });
    if (problem) throw new Error(`${file}: the entry of \`${name}\`: ${problem}`);
    if (table.has(name)) throw new Error(`${file}: \`${name}\` is listed twice`);
    table.set(name, principal);
  }
  const denied = new Set(revoked.map((one) => ('serial' in one ? serialOf(one.serial) : one.fingerprint256)));
  return (certificate, nowMs = Date.now()) => {
    if (denied.has(certificate.fingerprint256) || denied.has(serialOf(certificate.serialNumber))) return 'revoked';
    // a connection, or a resumed session, may outlive what opened it
    if (!(Date.parse(certificate.validTo) > nowMs && Date.parse(certificate.validFrom) <= nowMs)) return null;
    const found = new Set(namesOf(certificate).flatMap((name) => table.get(name) ?? []));
    // of a certificate that is two people nobody knows who is calling
    return found.size === 1 ? ([...found][0] ?? null) : null;
  };
}

function principalOf({ tenant, principal, roles: held, subject, purposes, tools, grants }: Entry): Principal {
  return { tenant, id: principal, roles: held ?? defaultRoles, subject: subject ?? null, purposes: purposes ?? [], tools: tools ?? '*', grants: { ownKeys: grants?.own_keys ?? false, assertSubject: grants?.assert_subject ?? false } };
}

function nameOf(match: Entry['match']): string {
  const [[kind, value]] = Object.entries(match) as [[string, string | string[]]];
  return `${kind} ${Array.isArray(value) ? value.join('\n') : value}`;
}

/** As openssl and as Node write it: with or without colons and leading zeros. */
function serialOf(hex: string): string {
  return `serial ${hex.replaceAll(':', '').toUpperCase().replace(/^0+(?=.)/, '')}`;
}

const kinds: Readonly<Record<string, string>> = { URI: 'uri', DNS: 'dns', email: 'email' };
/** Node writes `URI:spiffe://…, DNS:a`, and what could be mistaken for that as a JSON text. */
const altName = /(?:^|, )([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?=, |$)/gy;

function namesOf({ subject, subjectAltName = '', fingerprint256 }: ClientCertificate): string[] {
  const alternatives = [...subjectAltName.matchAll(altName)].flatMap(([, kind = '', value = '']) =>
    kinds[kind] ? [`${kinds[kind]} ${value.startsWith('"') ? (JSON.parse(value) as string) : value}`] : []);
  return [...alternatives, `subject ${subject}`, `fingerprint256 ${fingerprint256}`];
}
