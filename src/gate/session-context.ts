/**
 * What a session's own caller was told and what is left to it, as members and as text for a system prompt. Only of this principal and subject:
 * of a session that is somebody else's there is nothing, as of one that is unknown. Tools are those of the contracts that it may use: a name
 * that a model made up has no place in the prompt of another.
 */
import type { EntityPlan } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';
import { nextActions, type Principal } from '../model.js';
import { nextActionMeanings } from '../next-actions.js';
import type { SessionContextView } from '../ports.js';
import { decideTool } from './authorize.js';
import { dailyPurse, executionUse, sessionScope } from './budgets.js';
import { isListed } from './listed.js';
import type { Parts } from './parts.js';
import type { Served } from './served.js';
import type { SessionContext } from './ports.js';

export async function sessionContext(parts: Parts, principal: Principal, asked: { id: string; subject?: string }): Promise<SessionContextView | Refusal> {
  if (asked.subject !== undefined && asked.subject !== principal.subject && !principal.grants.assertSubject) {
    return refuse('SUBJECT_NOT_GRANTED', 'This credential does not act for the subject that the request names.');
  }
  const subject = asked.subject ?? principal.subject ?? '';
  const envelope = { subject, sessionId: asked.id, intentId: '', purpose: principal.purposes[0] ?? '' };
  const known = await parts.ledger.context({
    tenant: principal.tenant, principal: principal.id, subject, session: sessionScope({ principal, envelope }), purse: dailyPurse(principal),
  });
  const served = parts.served();
  const mayUse = usable(served, { principal, envelope, untrusted: known.untrusted });
  const entities = entitiesOf(served, mayUse, known);
  const budgets = budgetsOf(parts, mayUse, known);
  return { session_id: asked.id, text: textOf(entities, budgets), entities, budgets };
}

type MayUse = (tool: string) => boolean;

/** Policy is asked once for each tool, however many entities and refusals there are. */
function usable({ catalogue, policy }: Served, asking: Parameters<typeof decideTool>[1]): MayUse {
  const known = new Map<string, boolean>();
  return (name) => {
    const tool = catalogue.tools.get(name);
    if (!tool || !isListed(asking.principal, name)) return false;
    const may = known.get(name) ?? decideTool(policy, asking, tool).allowed;
    known.set(name, may);
    return may;
  };
}

/** Of the types that are served and that this caller may read at all; with the actions that it may use. */
function entitiesOf({ catalogue }: Served, mayUse: MayUse, { entities }: SessionContext): SessionContextView['entities'] {
  const plans = new Map<string, EntityPlan>([...catalogue.tools.values()].flatMap(({ entity }) => (entity ? [[entity.name, entity]] : [])));
  /** By the tool that reads it; a state that the gateway keeps and no tool reads, by any tool that acts on it. */
  const knowable = ({ name, observation }: EntityPlan): boolean => (observation
    ? mayUse(observation.tool.name)
    : [...catalogue.tools.values()].some((tool) => tool.entity?.name === name && mayUse(tool.name)));
  return entities.flatMap(({ entity, state, version, observedAt }) => {
    const plan = plans.get(entity.slice(0, entity.indexOf(':')));
    if (!plan || !knowable(plan)) return [];
    const legal = state === null ? [] : Object.keys(plan.transitions[state] ?? {}).filter(mayUse);
    return [{ entity, state, version, observed_at: observedAt, legal_actions: legal }];
  });
}

function budgetsOf({ settings }: Parts, mayUse: MayUse, { standing, turns, refusals: all }: SessionContext): SessionContextView['budgets'] {
  const refusals = all.filter(({ tool }) => mayUse(tool));
  const { of, per, limit, used } = executionUse(standing, settings);
  return {
    executions: { of, per: per === 'day' ? 'day' : 'session', limit, used },
    proposals: {
      limit: standing.proposals.limit ?? settings.proposals, used: Math.max(0, ...refusals.map((one) => one.used)),
      refused: refusals.map(({ tool, task, used: times }) => ({ tool, intent_id: task.startsWith('intent:') ? task.slice('intent:'.length) : null, used: times })),
    },
    turns: turns ?? { limit: settings.turns, used: 0 },
  };
}

function textOf(entities: SessionContextView['entities'], { executions, proposals, turns }: SessionContextView['budgets']): string {
  const left = (budget: { limit: number; used: number }): string => `${Math.max(0, budget.limit - budget.used)} of ${budget.limit}`;
  return [
    'Your tool calls go through a gateway. It checks each call, makes every change at most once, and answers with `disposition` (what happened) and `next_action` (what you may do next):',
    ...nextActions.map((word) => `- ${word}: ${nextActionMeanings[word]}`),
    '',
    entities.length === 0 ? 'Nothing has been read in this session yet.' : 'What you were told in this session. It may have changed since: read it again before you rely on it.',
    ...entities.map(lineOf),
    '',
    `Left ${executions.per === 'day' ? 'today' : 'in this session'}: ${left(executions)} changes. Left in this session: ${left(turns)} turns.`,
    `A tool that was refused ${proposals.limit} times for one request is not tried again.${spent(proposals)}`,
  ].join('\n');
}

function lineOf({ entity, state, version, observed_at, legal_actions }: SessionContextView['entities'][number]): string {
  const known = [state === null ? 'no known state' : `state ${quoted(state)}`, ...(version === null ? [] : [`version ${quoted(version)}`]), `seen ${observed_at}`];
  const may = state === null ? '' : legal_actions.length === 0 ? ' You may change nothing in this state.' : ` You may use: ${legal_actions.join(', ')}.`;
  return `- ${quoted(entity)}: ${known.join(', ')}.${may}`;
}

function spent({ limit, refused }: SessionContextView['budgets']['proposals']): string {
  const names = [...new Set(refused.filter(({ used }) => used >= limit).map(({ tool }) => quoted(tool)))];
  return names.length === 0 ? '' : ` Used up for: ${names.join(', ')}.`;
}

const quotedAtMost = 120;

/** Ids and states come from services and models: in a prompt they must not read as instructions of ours, nor begin a line of their own. */
function quoted(text: string): string {
  return /^[\w.:@/-]{1,120}$/.test(text) ? text : JSON.stringify(text.slice(0, quotedAtMost));
}
