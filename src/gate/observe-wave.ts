/** Observations that are made together: for each of them one read, or one for each element of a list, some at a time. */
import { EvaluationError, type ObservationPlan, type Scope } from '../contract/plan.js';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { JsonObject } from '../model.js';
import type { Observation } from './calls.js';
import type { Parts } from './parts.js';
import { closedRefusal } from './place.js';
import { asObject, type ReadOutcome, readUpstream } from './read.js';
import { evaluateAll, readScope } from './scope.js';

/** Reads of one call that are under way at once, whatever its contract asks for: one call may not take all of a service's places. */
const parallelReads = 4;

/** One read of an observation. `key` is its element, or null for the one read of a plain observation. */
interface Question { plan: ObservationPlan; key: string | null; scope: Scope; args: JsonObject }
interface Reply { value: JsonObject | null; version: string | null; at: number; until: number }

/** Observations that rest on none of each other. The first failure in their order is the answer, and nothing more is asked after one. */
export async function observeWave(
  parts: Parts, plans: readonly ObservationPlan[], scope: Scope, until: number,
): Promise<Observation[] | 'absent' | Refusal> {
  const questions: Question[] = [];
  for (const plan of plans) {
    const asked = questionsOf(plan, scope);
    if (isRefusal(asked)) return asked;
    questions.push(...asked);
  }
  const failures: { at: number; failure: 'absent' | Refusal }[] = [];
  const replies: (Reply | undefined)[] = [];
  let next = 0;
  const ask = async (): Promise<void> => {
    while (next < questions.length && failures.length === 0) {
      const at = next++;
      const reply = await readOne(parts, questions[at] as Question, until);
      if (reply === 'absent' || isRefusal(reply)) failures.push({ at, failure: reply });
      else replies[at] = reply;
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallelReads, questions.length) }, ask));
  const [first] = failures.sort((a, b) => a.at - b.at);
  return first ? first.failure : plans.map((plan) => gathered(plan, questions, replies));
}

function questionsOf(plan: ObservationPlan, scope: Scope): Question[] | Refusal {
  const { each } = plan;
  try {
    if (!each) return [{ plan, key: null, scope, args: evaluateAll(plan.args, scope) }];
    const elements = [...new Set(each.list.evaluate(scope) as (string | number)[])];
    if (elements.length > each.max) {
      return refuse('PREDICATE_ERROR', `\`${plan.name}\` would be ${elements.length} reads, and its contract allows ${each.max}.`);
    }
    return elements.map((element) => {
      const own = { ...scope, [each.as]: element };
      return { plan, key: String(element), scope: own, args: evaluateAll(plan.args, own) };
    });
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return refuse('PREDICATE_ERROR', `The observation \`${plan.name}\` could not be asked for.`);
  }
}

async function readOne(parts: Parts, { plan, key, scope, args }: Question, until: number): Promise<Reply | 'absent' | Refusal> {
  try {
    const { outcome, startedAt: at } = await readUpstream(parts, plan.tool, readScope(scope, plan.tool, args), until);
    if (outcome.kind === 'not_found') return key === null ? 'absent' : { value: null, version: null, at, until: performance.now() };
    if (outcome.kind !== 'read') return unread(plan, outcome);
    const version = plan.version ? versionOf(plan, { ...scope, args }, outcome) : null;
    return { value: asObject(outcome.result), version, at, until: performance.now() };
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return refuse('PREDICATE_ERROR', `The observation \`${plan.name}\` could not be asked for.`);
  }
}

/** As old as its oldest read. */
function gathered(plan: ObservationPlan, questions: readonly Question[], replies: readonly (Reply | undefined)[]): Observation {
  const own = questions.flatMap((question, index) => (question.plan === plan ? [{ key: question.key, ...(replies[index] as Reply) }] : []));
  const at = Math.min(performance.now(), ...own.map((reply) => reply.at));
  const version = plan.each ? null : (own[0]?.version ?? null);
  const found = own.filter((reply) => reply.value !== null);
  return {
    name: plan.name, tool: plan.tool.name, version, at, ms: Math.round((Math.max(at, ...own.map((reply) => reply.until)) - at) * 10) / 10,
    value: plan.each ? Object.fromEntries(found.map(({ key, value }) => [key, value]))
      : withVersion(plan, own[0]?.value ?? {}, version),
  };
}

/** Where one is declared it is that and nothing else, also when the answer came without it. */
export function withVersion(plan: ObservationPlan, value: JsonObject, version: string | null): JsonObject {
  if (!plan.version) return value;
  const { version: _, ...others } = value;
  return version === null ? others : { ...others, version };
}

export function versionOf(plan: ObservationPlan, scope: Scope, read: Extract<ReadOutcome, { kind: 'read' }>): string | null {
  try {
    return plan.version?.evaluate({ ...scope, status: read.status, headers: read.headers, body: read.result, result: read.result }) ?? null;
  } catch (error) {
    if (error instanceof EvaluationError) return null;
    throw error;
  }
}

function unread(plan: ObservationPlan, outcome: ReadOutcome): Refusal {
  if (outcome.kind === 'closed') return closedRefusal(outcome.because);
  return refuse('OBSERVATION_FAILED', `\`${plan.name}\` could not be read. Nothing was written.`);
}
