/**
 * Entities whose ids are told by what was observed or bound on the way. Their guard keys, and the states that the gateway keeps, are looked
 * up before anything else is observed of them, as a look-up does for those that the call itself tells: so what is decided on was true under
 * the epochs under which the keys are claimed.
 */
import { EvaluationError, lastResults } from '../contract/plan.js';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { ActedEntity, FreshCall } from './calls.js';
import { entitiesOf, identifiable, ownEntity } from './entities.js';
import type { Parts } from './parts.js';
import { callScope } from './scope.js';
import { bindResults } from './session-results.js';

type Identified = 'identified' | 'guarded' | Refusal;

/**
 * `guarded`: another effect is open on one of them, so nothing is worth observing before it has settled. Asked before each wave of observations;
 * a promise only where there is something to find out.
 */
export function identifyLate(parts: Parts, call: FreshCall): Identified | Promise<Identified> {
  return nothingIsLate(call) ? 'identified' : findLate(parts, call);
}

function nothingIsLate({ tool, entities, guards, resultsBound, unbound }: FreshCall): boolean {
  return resultsBound && unbound === null && entities.length === entitiesOf(tool).length
    && entities.every(({ plan, key }) => !plan.kept && (tool.effect === 'none' || guards.some((guard) => guard.key === key)));
}

async function findLate(parts: Parts, call: FreshCall): Promise<Identified> {
  for (;;) {
    await bindResults(parts, call);
    const found = identified(call);
    if (isRefusal(found)) return found;
    if (found.length > 0) {
      call.entities = [...call.entities, ...found];
      call.identity.entity = ownEntity(call.tool, call.entities);
    }
    if (await lookedUp(parts, call)) return 'guarded';
    showKept(call);
    if (found.length > 0 || !(call.resultsBound || !call.identity.entity)) continue;
    const rests = call.unbound !== null && entitiesOf(call.tool).some(({ entity }) => entity.idNeeds.includes(lastResults));
    return (rests ? call.unbound : null) ?? 'identified';
  }
}

function identified(call: FreshCall): ActedEntity[] | Refusal {
  const { tool, entities, observations } = call;
  if (entities.length === entitiesOf(tool).length) return [];
  const known = (need: string): boolean => (need === lastResults ? call.resultsBound && !call.unbound : observations.some(({ name }) => name === need));
  try {
    return identifiable(tool, callScope(call), known, entities);
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return refuse('PREDICATE_ERROR', 'Which resource this call is about could not be worked out.', {
      errors: [{ pointer: '', code: 'predicate_error', message: 'The id could not be evaluated.', expected: error.source }],
    });
  }
}

/** True: one of the keys is held. */
async function lookedUp(parts: Parts, call: FreshCall): Promise<boolean> {
  const { tool, principal, envelope, identity, entities, guards } = call;
  const unguarded = tool.effect === 'none' ? [] : entities.filter(({ key }) => !guards.some((guard) => guard.key === key));
  const keys = [...new Set(unguarded.map(({ key }) => key))];
  const kept = entities.filter(({ plan, key }) => plan.kept && !Object.hasOwn(call.kept, key));
  if (keys.length === 0 && kept.length === 0) return false;
  const own = identity.entity && keys.includes(identity.entity.key) ? identity.entity.key : null;
  const found = await parts.ledger.find({
    tenant: principal.tenant, callKey: null, identity: identity.operation, guardKeys: keys,
    seen: own === null ? null : { principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId, entity: own },
    kept: kept.map(({ plan, key }) => ({ service: plan.service, entity: key })),
  });
  call.guards = [...guards, ...keys.map((key, n) => ({ key, epoch: found.guardEpochs[n] as number }))];
  if (own !== null) call.seenVersion = found.seenVersion;
  call.kept = { ...call.kept, ...keptStates(kept, found.kept) };
  return found.guarded;
}

/** One that was never moved is where its contract says that it begins. */
export function keptStates(entities: readonly ActedEntity[], found: readonly (string | null)[]): Record<string, string> {
  return Object.fromEntries(entities.map(({ plan, key }, n) => [key, found[n] ?? plan.kept?.initial ?? '']));
}

/** What nothing at the upstream shows is known all the same: expressions, policy and receipts have it like an observation, by the gateway. */
function showKept(call: FreshCall): void {
  for (const { plan, key } of call.entities) {
    if (!plan.kept || plan.observation || call.observations.some(({ name }) => name === plan.name)) continue;
    call.observations.push({ name: plan.name, tool: 'gateway', value: { state: call.kept[key] as string }, version: null, at: performance.now(), ms: 0 });
  }
}
