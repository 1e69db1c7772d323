/** The claims of a proven token to a principal. What is missing or has another form refuses the token: nothing is guessed. */
import { type Principal, type Role, roles as allRoles } from '../model.js';
import { combinesPlanes, isName } from './api-keys.js';
import { defaultRoles, type Issuer } from './issuers.js';

export type ClaimSet = Readonly<Record<string, unknown>>;

/** @returns the principal, or the name of what the token does not say in a usable form */
export function principalOfClaims(payload: ClaimSet, { claims, grants }: Issuer): Principal | { lacks: string } {
  const tenant = 'value' in claims.tenant ? claims.tenant.value : nameOf(payload, claims.tenant.claim);
  if (tenant === null || ('claim' in claims.tenant && claims.tenant.allowed && !claims.tenant.allowed.includes(tenant))) return { lacks: 'tenant' };
  const id = nameOf(payload, claims.principal?.claim ?? 'sub');
  if (id === null) return { lacks: 'principal' };
  const roles = rolesOf(payload, claims);
  if (roles === null) return { lacks: 'roles' };
  const subject = claims.subject ? nameOf(payload, claims.subject.claim) : null;
  if (claims.subject && subject === null) return { lacks: 'subject' };
  const purposes = claims.purposes ? listOf(payload, claims.purposes) : [];
  if (purposes === null) return { lacks: 'purposes' };
  const tools = claims.tools ? listOf(payload, claims.tools) : '*';
  if (tools === null) return { lacks: 'tools' };
  return { tenant, id: (claims.principal?.prefix ?? '') + id, roles, subject, purposes, tools, grants };
}

/** Those among what the issuer may give. One that combines `agent` with another role opens neither plane, whatever else it holds. */
function rolesOf(payload: ClaimSet, { roles }: Issuer['claims']): readonly Role[] | null {
  if (!roles) return defaultRoles;
  if ('value' in roles) return roles.value;
  const claimed = textsOf(claimAt(payload, roles.claim))?.filter(isRole) ?? [];
  const given = claimed.filter((role) => roles.allowed.includes(role));
  return given.length === 0 || combinesPlanes(claimed) ? null : given;
}

const isRole = (text: string): text is Role => (allRoles as readonly string[]).includes(text);

function listOf(payload: ClaimSet, from: { claim: string } | { value: readonly string[] }): readonly string[] | null {
  if ('value' in from) return from.value;
  const listed = textsOf(claimAt(payload, from.claim));
  return listed?.every(isName) ? listed : null;
}

function nameOf(payload: ClaimSet, claim: string): string | null {
  const value = claimAt(payload, claim);
  return typeof value === 'string' && isName(value) ? value : null;
}

/** A list, or one text with spaces between, as `scope` has it. */
function textsOf(value: unknown): readonly string[] | null {
  if (typeof value === 'string') return value.split(' ').filter((part) => part !== '');
  return Array.isArray(value) && value.every((item): item is string => typeof item === 'string') ? value : null;
}

/** By its name, or, where that begins with `/`, by a JSON pointer: `/realm_access/roles`. */
function claimAt(payload: ClaimSet, claim: string): unknown {
  if (!claim.startsWith('/')) return Object.hasOwn(payload, claim) ? payload[claim] : undefined;
  const steps = claim.slice(1).split('/').map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  return steps.reduce<unknown>((at, step) => (typeof at === 'object' && at !== null && Object.hasOwn(at, step) ? (at as Record<string, unknown>)[step] : undefined), payload);
}
