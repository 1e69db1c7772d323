/** What an operator writes about issuers decides who everybody is: a slip must stop the gateway, not open it. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readIssuers } from '../../src/identity/issuers.js';

const folder = mkdtempSync(join(tmpdir(), 'callgate-issuers-'));
function file(content: string): string {
  const path = join(folder, 'issuers.yaml');
  writeFileSync(path, content);
  return path;
}
const least = 'name: company, issuer: "https://login.test/", jwks_url: "https://login.test/keys", audience: callgate, typ: at+jwt, claims: { tenant: { value: acme } }';
const one = (more: string, instead: [string, string] = ['', '']): string => file(`issuers: [ { ${least.replace(...instead)}${more} } ]`);

describe('a file of issuers', () => {
  it('needs little, and what it does not say is narrow', () => {
    expect(readIssuers(one(''))).toEqual([{
      name: 'company', issuer: 'https://login.test/', keys: { url: 'https://login.test/keys' }, allowPrivate: null, audience: ['callgate'], algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519'],
      typ: 'at+jwt', clockToleranceMs: 30_000, maxAgeMs: null, keysKeptMs: 3_600_000, claims: { tenant: { value: 'acme' } }, grants: { ownKeys: false, assertSubject: false },
    }]);
  });

  it('can say all of it', () => {
    const [all] = readIssuers(file(`issuers:
  - name: company
    issuer: https://login.test/
    jwks_file: keys.json
    audience: [callgate, tools]
    algorithms: [ES384]
    typ: JWT
    clock_tolerance: 5s
    max_age: 1h
    keys_kept: 12h
    claims:
      tenant: { claim: org, allowed: [acme] }
      principal: { claim: client_id, prefix: "jwt:" }
      roles: { claim: /realm_access/roles, allowed: [reviewer] }
      subject: { claim: sub }
      purposes: { claim: scope }
      tools: { value: [get_order] }
    grants: { own_keys: true }
`));
    expect(all).toMatchObject({ keys: { file: join(folder, 'keys.json') }, audience: ['callgate', 'tools'], algorithms: ['ES384'], clockToleranceMs: 5_000, maxAgeMs: 3_600_000, keysKeptMs: 43_200_000, grants: { ownKeys: true, assertSubject: false } });
  });

  it.each<[string, string, RegExp]>([
    ['an algorithm that whoever verifies can sign with', ', algorithms: [HS256]', /algorithms/],
    ['no algorithm', ', algorithms: [none]', /algorithms/],
    ['a member that it does not have', ', audiences: [x]', /audiences/],
    ['both places of keys', ', jwks_file: x', /one of `jwks_url` and `jwks_file`/],
  ])('is refused with %s', (_, more, message) => {
    expect(() => readIssuers(one(more))).toThrow(message);
  });

  it.each<[string, [string, string], RegExp]>([
    ['no keys', ['jwks_url: "https://login.test/keys", ', ''], /one of `jwks_url` and `jwks_file`/],
    ['keys over plain HTTP', ['"https://login.test/keys"', '"http://login.test/keys"'], /not https/],
    ['keys at no address of the web', ['"https://login.test/keys"', '"file:///etc/passwd"'], /not an https URL/],
    ['credentials in the address', ['"https://login.test/keys"', '"https://me:secret@login.test/keys"'], /without credentials/],
    ['no audience', ['audience: callgate, ', ''], /audience/],
    ['no type', ['typ: at+jwt, ', ''], /typ/],
    ['no tenant', ['{ tenant: { value: acme } }', '{}'], /tenant/],
    ['roles that anybody could claim', ['{ tenant: { value: acme } }', '{ tenant: { value: acme }, roles: { claim: roles } }'], /roles/],
    ['roles that open neither listener', ['{ tenant: { value: acme } }', '{ tenant: { value: acme }, roles: { value: [agent, admin] } }'], /combine `agent`/],
  ])('is refused with %s', (_, instead, message) => {
    expect(() => readIssuers(one('', instead))).toThrow(message);
    expect(() => readIssuers(one('', instead))).not.toThrow(/me:secret/);
  });

  it('is refused where one issuer could speak for the tenants of another, or for it', () => {
    const two = (a: string, b: string): string => file(`issuers: [ { ${a} }, { ${b} } ]`);
    const other = least.replace('company', 'partner').replace('"https://login.test/"', '"https://partner.test/"');
    expect(readIssuers(two(least, other))).toHaveLength(2);
    expect(() => readIssuers(two(least, least))).toThrow(/two issuers have the name `company`\n.*the issuer `https:\/\/login\.test\/`/);
    expect(() => readIssuers(two(least, other.replace('{ value: acme }', '{ claim: org }')))).toThrow('list its own under `claims.tenant.allowed`');
    expect(readIssuers(two(least, other.replace('{ value: acme }', '{ claim: org, allowed: [partner] }')))).toHaveLength(2);
  });

  it('is refused when it is not there, not YAML, or written twice', () => {
    expect(() => readIssuers(join(folder, 'none.yaml'))).toThrow('`identity.issuers_file` cannot be read: ENOENT');
    for (const content of ['', '[]', 'issuers: []', 'issuers: [', 'issuers: [ { name: a, name: b } ]', 'a: &x [1]\nissuers: *x']) expect(() => readIssuers(file(content)), content).toThrow(/is not a list of issuers|Alias/);
  });
});
