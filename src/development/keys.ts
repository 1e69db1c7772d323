/** The keys that a development set-up hands out. The agent's can only propose: for one customer, for one purpose. */
import { keyDigest, keyPrefix, type KeyRecord } from '../identity/api-keys.js';
import type { Role } from '../model.js';
import type { DevelopmentSecrets } from './secrets.js';

export const tenant = 'acme';
/** Who owns O-417 to O-420 of the example. */
export const customer = 'C-17';

export function developmentKeys(secrets: DevelopmentSecrets): KeyRecord[] {
  const record = (key: string, principal: string, role: Role, more: Partial<KeyRecord> = {}): KeyRecord => ({
    prefix: keyPrefix(key) as string, digest: keyDigest(secrets.key_pepper, key), tenant, principal, roles: [role], subject: null, purposes: [], tools: '*',
    grants: { assertSubject: false, ownKeys: false }, expiresAt: null, revokedAt: null, ...more,
  });
  return [
    record(secrets.agent_key, 'dev-agent', 'agent', { subject: customer, purposes: ['refund'], grants: { assertSubject: false, ownKeys: true } }),
    record(secrets.application_key, 'dev-application', 'application'),
    ...secrets.reviewer_keys.map((key, n) => record(key, `dev-reviewer-${n + 1}`, 'reviewer')),
    record(secrets.auditor_key, 'dev-auditor', 'auditor'),
    record(secrets.admin_key, 'dev-admin', 'admin'),
  ];
}
