/** Agents, and the people whom their calls ask: each step proposed, proposed again, followed as the answers say, and brought to its end. */
import { setTimeout as delay } from 'node:timers/promises';
import { type History, isRefusedByPerson, isUnheard, type Said, type Told, type Verdict } from './history.js';
import type { House } from './house.js';
import { customers } from './orders.js';
import type { Intent, Proposal, Step } from './plan.js';
import { type Request, requestsOf } from './proposing.js';
import { ask, type Heard } from './wire.js';

export interface Callers {
  /** While everything is disturbed. */
  play(step: Step): Promise<void>;
  /** When everything is quiet: asked again until there is an end, or `untilMs` has come. */
  finish(step: Step, untilMs: number): Promise<void>;
}

interface Approval { id: string; digest: string; summary: string; by: 'application' | 'reviewer' | 'client' }

/** A client that finds nobody, or is cut off, tries again as client libraries do. */
const again = 2;
const awayMs = 250;
const namesOfOne = /\b(?:op|rcp|rev|rvw|apr)_[A-Za-z0-9_-]{10,}|\bCR-[0-9A-F]{10}\b/g;

export function openCallers(house: House, history: History): Callers {
  const told = new Map<string, Told>();
  const deciding = new Map<string, Promise<void>>();

  function toldOf(step: Step, intent: Intent): Told {
    let of = told.get(intent.id);
    if (!of) {
      const { n, kind, session, budget, givesUp } = step;
      of = { intent, step: { n, kind, session, budget, givesUp }, said: [], cut: 0, verdicts: [], final: null, endedAt: null };
      told.set(intent.id, of);
      history.told.push(of);
    }
    return of;
  }

  async function propose(step: Step, proposal: Proposal, pauseMs = proposal.pauseMs): Promise<void> {
    await Promise.all(requestsOf(step, proposal).map(async (request, n) => {
      await delay(pauseMs);
      const customer = (request.intents[0] as Intent).customer;
      for (let tries = 0; tries <= again; tries++) {
        const askedAt = performance.now();
        const heard = await ask(house.fleet.any(proposal.replica + n + tries).agentUrl + request.path, house.keys.agents[customer], request.body);
        if (heard) see(customer, heard);
        await record(step, request, heard, askedAt);
        if (heard) return;
        await delay(awayMs);
      }
    }));
  }

  function see(customer: number, { text }: Heard): void {
    const user = `${customers[customer]?.tenant}/${customers[customer]?.customer_id}`;
    for (const name of text.match(namesOfOne) ?? []) history.sightings.set(name, (history.sightings.get(name) ?? new Set()).add(user));
  }

  async function record(step: Step, request: Request, heard: Heard | null, askedAt: number): Promise<void> {
    const answers = heard && request.answers(heard);
    if (answers && answers.length !== request.intents.length) history.misshapen.push(`${answers.length} answers to ${request.intents.length} calls of ${step.session}`);
    await Promise.all(request.intents.map(async (intent, n) => {
      const of = toldOf(step, intent);
      if (!heard) return void of.cut++;
      const body = answers?.[n] ?? heard.body;
      const said = keep(of, body, answers && request.path !== '/v1/calls' ? Number(body['status'] ?? 200) : heard.http, askedAt);
      if (said.disposition === 'approval_required') await follow(of, body['approval'] as Approval, said.operationId as string);
    }));
  }

  function keep(of: Told, body: Record<string, unknown>, http: number, askedAt: number): Said {
    const said = saidOf(body, http, askedAt);
    of.said.push(said);
    if (isEnd(of.intent, said)) {
      of.final = said;
      of.endedAt ??= said.at;
    }
    return said;
  }

  /** What was parked is asked after, not proposed again: that would be another call, once a person has said no to this one. */
  async function follow(of: Told, approval: Approval, operation: string): Promise<void> {
    await decide(of, approval);
    for (let n = 0; n < 8; n++) {
      const askedAt = performance.now();
      const heard = await ask(`${house.fleet.any(n).agentUrl}/v1/operations/${operation}`, house.keys.agents[of.intent.customer], undefined, 'GET', { prefer: 'wait=2' });
      if (!heard) await delay(awayMs);
      else {
        see(of.intent.customer, heard);
        if (heard.http === 200 || heard.http === 202 || heard.http === 403) {
          const said = keep(of, heard.body, heard.http, askedAt);
          if (isEnd(of.intent, said)) return;
        }
      }
      await delay(n * 50);
    }
  }

  /** Each approval once, by everybody whom it needs, twice over and on different replicas. */
  function decide(of: Told, approval: Approval): Promise<void> {
    let decided = deciding.get(approval.id);
    if (!decided) {
      decided = verdictsOn(of, approval).finally(() => deciding.delete(approval.id));
      deciding.set(approval.id, decided);
    }
    return decided;
  }

  async function verdictsOn(of: Told, { id, digest, summary, by }: Approval): Promise<void> {
    const { application, reviewers } = house.keys.people[customers[of.intent.customer].tenant];
    const people: [string, string][] = by === 'reviewer' ? [['reviewer-1', reviewers[0]], ['reviewer-2', reviewers[1]]] : [['application', application]];
    const decision = of.intent.verdict;
    await Promise.all(people.flatMap(([name, key], n) => [n, n + 1].map(async (replica) => {
      for (let tries = 0; tries <= again; tries++) {
        const heard = await ask(`${house.fleet.any(replica + tries).controlUrl}/v1/approvals/${id}/decision`, key, { decision, reason: 'as the suite has it', expected_digest: digest });
        const verdict: Verdict = { approval: id, decision, by: name, http: heard?.http ?? 0, summary, digest };
        of.verdicts.push(verdict);
        if (!isUnheard(verdict)) return;
        await delay(awayMs);
      }
    })));
  }

  async function openSession({ session, budget, intents }: Step): Promise<void> {
    if (budget === null) return;
    const { application } = house.keys.people[customers[(intents[0] as Intent).customer].tenant];
    for (let n = 0; n < 200; n++) {
      const heard = await ask(`${house.fleet.any(n).controlUrl}/v1/sessions/${session}`, application, { budgets: { executions: budget } }, 'PUT');
      if (heard?.http === 200) return;
      await delay(200);
    }
    throw new Error(`the session ${session} could not be created`);
  }

  const ended = (step: Step): boolean => step.intents.every((intent) => told.get(intent.id)?.final);
  /** Equal after two rounds only if the second brought nothing new: what came back to a budget in the first was asked for by everybody in the second. */
  const standing = ({ intents }: Step): string => JSON.stringify(intents.map(({ id }, n) => {
    const of = told.get(id);
    const last = of?.said.at(-1);
    const goesOn = of && last && !isEnd(of.intent, last) && !isRefusedByPerson(of) ? last.at : null;
    return [n, of?.final?.disposition, of?.final?.code, of?.final?.operationId, goesOn];
  }));
  const first = (step: Step): Proposal => step.proposals[0] as Proposal;

  /** What a person has said no to is left out: it would be asked for once more, and what stands behind it would wait. What is left is a plan of its own. */
  async function proposeAgain(step: Step, replica: number, pauseMs: number): Promise<void> {
    const { ids, ...proposal } = first(step);
    const intents = step.intents.filter(({ id }) => !isRefusedByPerson(told.get(id)));
    const left = intents.length === step.intents.length ? ids : `${ids}w${intents.length}`;
    if (intents.length > 0) await propose({ ...step, intents }, { ...proposal, ids: left, replica }, pauseMs);
  }

  /** What undoes the first intent, once its receipt is known. */
  function voidOf(step: Step): Step | null {
    const receipt = step.intents[0] && told.get(step.intents[0].id)?.final?.receiptId;
    if (!step.voids || !receipt) return null;
    const proposals = step.proposals.map((proposal) => ({ ...proposal, ids: `v${proposal.ids}` }));
    return { ...step, intents: [{ ...step.voids, args: { receipt_id: receipt } }], proposals, voids: null, faults: [] };
  }

  return {
    async play(step) {
      await house.fleet.someUp();
      await openSession(step);
      for (const fault of step.faults) await house.shop.arm(fault);
      if (step.together) await Promise.all(step.proposals.map((proposal) => propose(step, proposal)));
      else for (const proposal of step.proposals) await propose(step, proposal);
      for (let n = 0; n < step.patience && !ended(step); n++) await proposeAgain(step, first(step).replica + n, 100 + n * 200);
      const undo = voidOf(step);
      if (undo) await this.play(undo);
    },
    async finish(step, untilMs) {
      for (let n = 0, before = ''; !step.givesUp; n++) {
        await proposeAgain(step, n, Math.min(1_000, n * 100));
        const now = standing(step);
        if ((ended(step) && (step.budget === null || now === before)) || performance.now() > untilMs) break;
        before = now;
      }
      const undo = voidOf(step);
      if (undo) await this.finish(undo, untilMs);
    },
  };
}

function saidOf(body: Record<string, unknown>, http: number, askedAt: number): Said {
  const result = body['result'] ?? null;
  return {
    askedAt, at: performance.now(), http, disposition: String(body['disposition']), next: String(body['next_action']), outcome: (body['outcome'] as string | null) ?? null, verified: body['verified'] === true,
    operationId: (body['operation_id'] as string | null) ?? null, code: (body['code'] as string | undefined) ?? null, result: JSON.stringify(result),
    receiptId: ((result as { receipt_id?: string } | null)?.receipt_id) ?? null, evidenceOfChange: body['evidence_of_change'] === true,
    receipts: (body['receipts'] as Said['receipts'] | undefined) ?? { decision: null, effect: null },
  };
}

const goesOn = new Set(['wait', 'verify', 'retry', 'refresh']);

/** Known, and nothing more to be asked. A refusal of what was meant to be executed is an end only if it asks for nothing more. */
function isEnd({ expects }: Intent, { outcome, disposition, next }: Said): boolean {
  if (expects === 'read') return disposition === 'executed' || disposition === 'replayed';
  if (expects === 'refusal' && (disposition === 'precondition_failed' || disposition === 'transition_error' || disposition === 'version_conflict')) return true;
  if (goesOn.has(next) || disposition === 'review' || disposition === 'approval_required') return false;
  return outcome === 'committed' || outcome === null || outcome === 'rejected' || outcome === 'not_committed';
}
