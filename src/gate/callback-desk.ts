/**
 * What a service tells by itself. The signature is the credential: it shows that the service said it, and the key of the operation, which
 * nobody else can know, finds whose operation it is about. An event is durable before it is acknowledged; what it proves is for reconcile.
 */
import { randomBytes } from 'node:crypto';
import type { SecretSource, ToolPlan } from '../contract/plan.js';
import { LedgerUnavailable, refuse, type Refusal } from '../errors.js';
import type { Json } from '../model.js';
import type { CallbackDesk, CallbackVerdict, ReceivedCallback } from '../ports.js';
import { decodeUtf8, parseStrict } from '../strict-json.js';
import { orNull } from './callback-evidence.js';
import type { Parts } from './parts.js';
import { dueTopic } from './topics.js';
import { signedBy, signingKey, withinTolerance } from './webhook-signature.js';

/** As operations are named; an event of anything else is none of ours. */
const operationKey = /^op_[0-9a-z]{32}$/;
const keysAtMost = 20;
const nobodys = [randomBytes(32)];
const keptAsText = (): void => undefined;

export function openCallbackDesk(parts: Parts): CallbackDesk {
  return {
    async receive(received) {
      const verdict = await take(parts, received).catch((error: unknown) => {
        if (!(error instanceof LedgerUnavailable)) throw error;
        parts.log.warn({ err: error.cause, service: received.service }, 'a callback could not be recorded; the service is asked to send it again');
        return refuse('CALLBACK_UNAVAILABLE', 'The event could not be recorded.');
      });
      parts.metrics.callback('refused' in verdict ? 'refused' : verdict.status);
      return verdict;
    },
  };
}

async function take(parts: Parts, received: ReceivedCallback): Promise<CallbackVerdict | Refusal> {
  const { service, id, headers, body: bytes } = received;
  const tools = await verified(parts, received);
  if ('refused' in tools) return tools;
  const text = decodeUtf8(bytes);
  if (text === null) return refuse('MALFORMED_JSON', 'The body is not valid UTF-8.');
  const parsed = parseStrict(text, { maxDepth: parts.settings.depth }, keptAsText);
  if (!parsed.ok) return refuse(parsed.code, `${parsed.message} (at character ${parsed.position}).`);
  const keys = keysOf(tools, headers, parsed.value);
  if (keys.length === 0) return { event_id: id, status: 'ignored' };
  const kept = await parts.ledger.callbacks.keep({ service, id, keys, headers, body: parsed.value, bytes });
  if (kept === 'differs') parts.log.warn({ service, event: id }, 'a service has sent two events under one id; the second is not taken');
  if (kept === 'kept') parts.locks.announce(dueTopic);
  return { event_id: id, status: kept === 'kept' ? 'kept' : 'repeated' };
}

/** The tools that this event may be about: those of the service whose secret signed it. Which services there are is not told. */
async function verified(parts: Parts, { service, id, timestamp, signatures, body }: ReceivedCallback): Promise<ToolPlan[] | Refusal> {
  const tools = [...parts.served().catalogue.tools.values()].filter((tool) => tool.service === service);
  const plans = new Set(tools.map(({ upstream }) => upstream));
  let broken = false;
  // A service that there is not, or that tells nothing, costs the hash that one with a secret costs; nothing is proven by it.
  if (![...plans].some(({ callbacks }) => callbacks)) signedBy(nobodys, { id, timestamp, signatures, body });
  for (const { callbacks } of plans) {
    if (!callbacks) continue;
    try {
      if (!signedBy(await keysFrom(parts, service, callbacks.secrets), { id, timestamp, signatures, body })) continue;
    } catch (error) {
      parts.log.error({ err: error, service }, 'callbacks of a service cannot be checked');
      broken = true;
      continue;
    }
    if (!withinTolerance(timestamp, Date.now(), callbacks.toleranceMs)) return refuse('CALLBACK_NOT_VERIFIED', 'The time of the signature is too far from ours.');
    return tools.filter(({ upstream }) => upstream.callbacks === callbacks);
  }
  if (broken) return refuse('CALLBACK_UNAVAILABLE', 'Callbacks of this service cannot be checked just now.');
  return refuse('CALLBACK_NOT_VERIFIED', 'No signature of this request is one of that service.');
}

/** @throws Error in words for the operator when the first is missing, or one is malformed */
async function keysFrom(parts: Parts, service: string, sources: readonly SecretSource[]): Promise<Buffer[]> {
  const keys: Buffer[] = [];
  for (const [n, source] of sources.entries()) {
    // the one before is not needed once it is gone, wherever it was
    const secret = await (n === 0 ? parts.serviceSecret(service, source) : Promise.resolve().then(() => parts.serviceSecret(service, source)).catch(() => undefined));
    if (n > 0 && !secret) continue;
    const key = signingKey(secret);
    if (!key) throw new Error(`\`${source.from}:${source.name}\`, where the secret of the service's callbacks is, is not \`whsec_\` and at least 24 bytes in base64`);
    keys.push(key);
  }
  return keys;
}

function keysOf(tools: readonly ToolPlan[], headers: Record<string, string>, body: Json): string[] {
  const keys = tools.flatMap(({ async: asynchronous }) => {
    const key = asynchronous?.callback ? orNull(asynchronous.callback.operation, { headers, body }) : null;
    return typeof key === 'string' && operationKey.test(key) ? [key] : [];
  });
  return [...new Set(keys)].sort().slice(0, keysAtMost);
}
