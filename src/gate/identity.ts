/**
 * Who is asking again, and what was meant (semantics.md section 1). Every identity is a SHA-256 over the canonical JSON of an
 * array that begins with its kind, so that no two tenants, principals, subjects or kinds can run into each other.
 */
import { canonicalText, sha256 } from '../canonical.js';
import type { ToolPlan } from '../contract/plan.js';
import type { Json, JsonObject, Principal } from '../model.js';
import type { ActedEntity, CallIdentities, Envelope } from './calls.js';
import { ownEntity } from './entities.js';
import { besidesItems, itemKeys } from './items.js';

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const operationIdBytes = 20;

function hash(...parts: Json[]): Buffer {
  return sha256(canonicalText(parts));
}

/** Deterministic, so that it survives the loss of the ledger, and the upstream's idempotency key on every attempt. */
export function operationId(identity: Buffer, generation: number): string {
  const digest = hash('operation', identity.toString('hex'), generation).subarray(0, operationIdBytes);
  let text = 'op_';
  let bits = 0;
  let held = 0;
  for (const byte of digest) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += alphabet[(held >> bits) & 31];
      held &= (1 << bits) - 1;
    }
  }
  return text;
}

export interface IdentityInput {
  principal: Principal;
  envelope: Envelope;
  tool: ToolPlan;
  args: JsonObject;
  bound: JsonObject;
  /** Entities that the call is on or may change, as far as the call tells them. */
  entities: readonly ActedEntity[];
}

export function identify(input: IdentityInput): CallIdentities {
  const { principal, envelope, tool, args, bound, entities } = input;
  const who = [principal.tenant, principal.id, envelope.subject];
  const callKey = hash('call', ...who, envelope.sessionId, envelope.turnId, envelope.name);
  const fingerprint = hash('fingerprint', tool.name, args, bound);
  const entity = ownEntity(tool, entities);
  if (tool.effect === 'none') {
    return { callKey: null, fingerprint, operation: callKey, previousOccurrence: null, ownKey: false, guardKeys: [], queue: null, entities, entity, items: [] };
  }

  const meant = identityArguments(tool, args);
  const occurrence = (n: number): Buffer => hash('effect', ...who, scopeValue(tool, envelope), tool.name, meant, n);
  const ownKey = envelope.idempotencyKey !== null;
  const operation = ownKey ? hash('key', ...who, envelope.idempotencyKey) : occurrence(envelope.occurrence);
  const previousOccurrence = !ownKey && envelope.occurrence > 1 ? occurrence(envelope.occurrence - 1) : null;
  const own = (): string => `call:${hash('guard', ...who, tool.name, meant).toString('base64url')}`;
  const held = [...new Set([...entities.map(({ key }) => key), ...(tool.entity ? [] : [own()])])].sort();
  const keys = itemKeys(tool, args);
  const common = keys.length > 0 ? besidesItems(tool, meant) : {};
  const meantFor = ownKey ? ['key', envelope.idempotencyKey] : ['effect', scopeValue(tool, envelope), envelope.occurrence];
  const items = keys.map((key) => ({ key, identity: hash('item', ...who, meantFor, tool.name, common, key).toString('hex') }));
  const itemGuards = keys.map((key) => `item:${hash('item guard', ...who, tool.name, common, key).toString('base64url')}`);
  const guardKeys = [...held, ...itemGuards].sort();
  return { callKey, fingerprint, operation, previousOccurrence, ownKey, guardKeys, queue: held[0] ?? own(), entities, entity, items };
}

/** The call that takes an effect back, of the same principal and subject. */
export function undoKey(of: { principal: string; subject: string }, tool: string, args: JsonObject): Buffer {
  return hash('undo', of.principal, of.subject, tool, args);
}

/** By what it takes back: however, and however often, it is proposed, an effect is taken back once. */
export function undoIdentity(of: { tenant: string; principal: string; subject: string }, original: string): Buffer {
  return hash('undo of', of.tenant, of.principal, of.subject, original);
}

export function identityArguments(tool: ToolPlan, args: JsonObject): JsonObject {
  const named = tool.identity.arguments;
  if (!named) return args;
  const meant: [string, Json][] = [];
  for (const name of named) if (Object.hasOwn(args, name)) meant.push([name, args[name] as Json]);
  return Object.fromEntries(meant);
}

function scopeValue(tool: ToolPlan, envelope: Envelope): Json {
  switch (tool.identity.scope) {
    case 'tenant': return ['tenant'];
    case 'session': return ['session', envelope.sessionId];
    case 'call': return ['call', envelope.sessionId, envelope.turnId, envelope.sameAs];
    case 'intent': return envelope.intentId === '' ? ['session', envelope.sessionId] : ['intent', envelope.intentId];
  }
}
