/** What the agent listener offers beside proposing: how an operation stands, cancelling, and the tools there are. */
import { modelTool } from '../contract/views/model.js';
import { isRefusal, refuse } from '../errors.js';
import type { Answer, Principal } from '../model.js';
import { operationAnswer, refusalAnswer, withinLimit } from './answer.js';
import { cancelUnsent, isUnsent } from './cancel.js';
import { asking, cancelAnywhere, waitingAs } from './cancel-waiting.js';
import { decideResource, decideTool } from './authorize.js';
import { runBatch, runTurn } from './batch.js';
import { decidedOn } from './earlier.js';
import { isListed } from './listed.js';
import type { Parts } from './parts.js';
import { call } from './pipeline.js';
import type { Operation } from './ports.js';
import { resultPage } from './result-page.js';
import { Progress } from './progress.js';
import { sessionContext } from './session-context.js';
import { offering } from './usable.js';
import type { AgentDoor, TurnAnswer } from '../ports.js';

const pollMs = 200;
/** It is being moved at the same time: a few looks later it stands. */
const cancelTries = 20;

export function openDoor(parts: Parts): AgentDoor {
  const trim = (principal: Principal, answer: Answer): Answer => withinLimit(offering(parts.served(), principal, answer), parts.settings.resultBytes);
  const trimAll = (principal: Principal, answer: TurnAnswer): TurnAnswer => ('results' in answer ? { results: answer.results.map((each) => trim(principal, each)) } : answer);
  const admit = admission(parts);
  return {
    propose: ({ body, principal, idempotencyKey, patienceMs, respondAsync, gone }) => admit(async () =>
      trim(principal, await call(parts, { body, principal, ...(idempotencyKey === undefined ? {} : { idempotencyKey }) }, {
        until: performance.now() + (patienceMs ?? parts.settings.patienceMs), respondAsync: respondAsync ?? false, gone,
      })), (refused) => refused),

    batch: (batch) => admit(async () => trimAll(batch.principal, await runBatch(parts, batch)), (refused) => ({ refused })),
    turn: (turn) => admit(async () => trimAll(turn.principal, await runTurn(parts, turn)), (refused) => ({ refused })),

    async operation(principal, operationId, patienceMs) {
      const until = performance.now() + patienceMs;
      for (;;) {
        const operation = await own(parts, principal, operationId);
        const left = until - performance.now();
        if (!operation) {
          if (waitingAs(parts, asking(principal, operationId)).length === 0) return noSuchOperation();
          if (left <= 0) return refusalAnswer(refuse('IN_PROGRESS', 'The call waits and has not been sent. Ask for this operation again, or cancel it.'), reader(), operationId);
          await parts.locks.heard(operationId, Math.min(left, pollMs));
          continue;
        }
        if (!isOpen(operation) || left <= 0) return trim(principal, operationAnswer(operation, { progress: reader(), as: 'reader' }));
        await parts.locks.heard(operation.id, Math.min(left, pollMs));
      }
    },

    async result(principal, operationId, { offset, limitBytes }) {
      const operation = await own(parts, principal, operationId);
      if (!operation) return { refused: noSuchOperation() };
      const page = resultPage(operation, offset, Math.min(limitBytes ?? Number.POSITIVE_INFINITY, parts.settings.resultBytes));
      return isRefusal(page) ? { refused: refusalAnswer(page, reader(), operation.id) } : { page };
    },

    async cancel(principal, operationId) {
      let operation = await own(parts, principal, operationId);
      const look = (): Promise<Operation | null> => own(parts, principal, operationId);
      for (let n = 0; n < cancelTries && (operation ? isUnsent(operation) : await cancelAnywhere(parts, asking(principal, operationId), look)); n++) {
        if (operation) await cancelUnsent(parts, operation);
        operation = await look();
      }
      if (!operation) return noSuchOperation();
      if (operation.state === 'cancelled') return operationAnswer(operation, { progress: reader(), as: 'reader' });
      return refusalAnswer(refuse('TOO_LATE', `The operation is ${operation.state}; only what has not been sent can be cancelled.`), reader(), operation.id);
    },

    context: (principal, session) => sessionContext(parts, principal, session),

    tools(principal) {
      const { catalogue, policy } = parts.served();
      return [...catalogue.tools.values()]
        .filter(({ name }) => isListed(principal, name))
        .filter((tool) => decideTool(policy, { principal, envelope: { subject: principal.subject ?? '', purpose: principal.purposes[0] ?? '' } }, tool).allowed)
        .map((tool) => ({ ...modelTool(tool), version: tool.version, digest: tool.digest }));
    },
  };
}

/** What waits in line costs memory and nothing else, so that alone must bound it: who comes beyond is told at once, before anything was asked of anybody. */
function admission({ settings, metrics }: Parts): <T>(work: () => Promise<T>, refused: (answer: Answer) => T) => Promise<T> {
  let inFlight = 0;
  return async (work, refused) => {
    if (inFlight >= settings.inFlight) {
      metrics.call('', 'unavailable');
      return refused(refusalAnswer(refuse('OVERLOADED', 'This replica works on as many calls as it takes. Nothing was sent.'), reader()));
    }
    inFlight++;
    try {
      return await work();
    } finally {
      inFlight--;
    }
  };
}

function reader(): Progress {
  return new Progress(() => undefined);
}

/** Of its own tenant, principal and subject; others do not exist for it, nor for how long it takes. */
async function own(parts: Parts, principal: Principal, operationId: string): Promise<Operation | null> {
  const operation = await parts.ledger.own(asking(principal, operationId));
  return operation && mayBeTold(parts, principal, operation) ? operation : null;
}

/** As for a replay: the tool is on the list, and policy allows it, and the resource on the facts as they were stored. */
function mayBeTold(parts: Parts, principal: Principal, operation: Operation): boolean {
  if (!isListed(principal, operation.tool)) return false;
  const { catalogue, policy } = parts.served();
  const tool = catalogue.tools.get(operation.tool);
  if (!tool) return true; // no longer published: there is no policy to ask any more, and what it did stays its proposer's
  const asking = { principal, envelope: operation };
  if (!decideTool(policy, asking, tool).allowed) return false;
  const decided = decidedOn(operation);
  return !decided || decideResource(policy, { ...asking, args: decided.args }, operation.tool, decided.resource).allowed;
}

function isOpen({ state, verified, answer }: Operation): boolean {
  return ['parked', 'approved', 'sending', 'unknown', 'accepted'].includes(state) || (state === 'committed' && !verified && answer?.['verifyWith'] !== undefined);
}

function noSuchOperation(): Answer {
  return refusalAnswer(refuse('OPERATION_NOT_FOUND', 'There is no such operation for this caller.'), reader());
}
