/**
 * What is worth trying on a tool, and what has to come of it: the state pairs, the rules, the faults and the questions to ask
 * afterwards. An evaluation picks from these; what is expected follows from the contract, not from an implementation.
 */
import type { Disposition, JsonObject, NextAction, Outcome } from '../../model.js';
import type { ErrorSource, ToolSource } from '../document.js';
import type { Catalogue, EntityPlan, ErrorRule, Predicate, ToolPlan } from '../plan.js';
import { faultEpisodes, type FaultEpisode } from './faults.js';
import { type GovernedTool, governedTools } from './governed.js';

export interface Expectation {
  disposition: Disposition;
  code?: string | null;
  next_action?: NextAction;
  legal_actions?: string[];
}

export interface EvaluatorTool {
  tool: string;
  version: string;
  digest: string;
  effect: ToolPlan['effect'];
  /** Calls that are valid by the schema, for a start. */
  examples: JsonObject[];
  /** Every state of each entity whose table has this action. */
  states: { entity: string; state: string; next_state: string | null; expect: Expectation }[];
  /** Each rule broken by itself, all those before it holding. */
  rules: { id: string; broken: string; expect: Expectation }[];
  answers: { when: string; expect: Expectation }[];
  approvals: { when: string; by: string; approvals: number; expect: Expectation }[];
  repeats: { repeat: string; expect: Expectation; effects: number }[];
  faults: FaultEpisode[];
  postconditions: Postconditions;
}

interface Postconditions {
  /** Finds the effect at the destination. */
  readback: { tool: string; args: JsonObject; committed: string; absent: string; settle_after_ms: number; lag_ms: number } | null;
  /** Over the entity, before and after. */
  changes: string[];
  never: string[];
  /** `tool` is null where nothing shows it; `state` is `gateway` where the gateway keeps it. */
  observe: { entity: string; tool: string | null; state: string | null } | null;
}

export function evaluatorView(catalogue: Catalogue): { digest: string; tools: EvaluatorTool[] } {
  return { digest: catalogue.digest, tools: governedTools(catalogue).map(evaluatorTool) };
}

function evaluatorTool({ plan, source }: GovernedTool): EvaluatorTool {
  const { name, version, digest, effect, relations, preconditions } = plan;
  return {
    tool: name,
    version,
    digest,
    effect,
    examples: plan.examples.map(({ args }) => args),
    states: effect === 'none' ? [] : statePairs(plan),
    rules: [
      ...relations.map((rule) => broken(rule, 'invalid_arguments')),
      ...preconditions.map((rule) => broken(rule, 'precondition_failed')),
    ],
    answers: plan.errors.map(answered),
    approvals: plan.approvals.map(({ when, by, approvals }) => ({
      when: when.source,
      by,
      approvals,
      expect: { disposition: 'approval_required', next_action: by === 'reviewer' ? 'escalate' : 'ask' },
    })),
    repeats: effect === 'none' ? [] : repeats(plan),
    faults: faultEpisodes(plan),
    postconditions: postconditions(plan, source),
  };
}

function statePairs({ name, entity, touches }: ToolPlan): EvaluatorTool['states'] {
  const tables = [...(entity ? [entity] : []), ...touches.flatMap((touched) => (touched.governed ? [touched.entity] : []))];
  return tables.flatMap((table) => pairsOf(name, table));
}

function pairsOf(name: string, entity: EntityPlan): EvaluatorTool['states'] {
  return entity.states.map((state) => {
    const actions = entity.transitions[state] ?? {};
    const next = actions[name] ?? null;
    const expect: Expectation =
      next === null
        ? { disposition: 'transition_error', code: 'TRANSITION_ERROR', legal_actions: Object.keys(actions) }
        : { disposition: 'executed', next_action: 'continue' };
    return { entity: entity.name, state, next_state: next, expect };
  });
}

function broken({ id, check, otherwise: { code, next } }: Predicate, disposition: Disposition): EvaluatorTool['rules'][number] {
  return { id, broken: check.source, expect: { disposition, code, next_action: next } };
}

function answered({ when, outcome, class: kind, code, next }: ErrorRule): EvaluatorTool['answers'][number] {
  return { when: when.source, expect: { disposition: kind ? dispositionOfClass[kind] : dispositionOf[outcome], code, next_action: next } };
}

const dispositionOfClass: Readonly<Record<NonNullable<ErrorSource['class']>, Disposition>> = {
  version_conflict: 'version_conflict',
  rate_limited: 'rate_limited',
  not_found: 'denied',
};

/** Where every attempt is answered so. */
const dispositionOf: Readonly<Record<Outcome, Disposition>> = {
  committed: 'executed',
  accepted: 'pending',
  rejected: 'rejected',
  not_committed: 'rejected',
  unknown: 'unknown',
};

function repeats({ repeatable, identity: { scope } }: ToolPlan): EvaluatorTool['repeats'] {
  const again: EvaluatorTool['repeats'] = [
    { repeat: 'the same call again', expect: { disposition: 'replayed', next_action: 'continue' }, effects: 1 },
    {
      repeat: 'the same call_id with other arguments',
      expect: { disposition: 'id_conflict', code: 'ID_CONFLICT', next_action: 'repair' },
      effects: 1,
    },
  ];
  if (scope !== 'call')
    again.push({ repeat: `an equal call under a new call_id, in the same ${scope}`, expect: { disposition: 'replayed' }, effects: 1 });
  if (repeatable) again.push({ repeat: 'an equal call with occurrence: 2', expect: { disposition: 'executed' }, effects: 2 });
  return again;
}

function postconditions({ entity, readback }: ToolPlan, { effects, readback: source }: ToolSource): Postconditions {
  return {
    readback:
      readback && source
        ? {
            tool: source.tool,
            args: source.args,
            committed: source.committed,
            absent: source.absent,
            settle_after_ms: readback.settleAfterMs,
            lag_ms: readback.lagMs,
          }
        : null,
    changes: effects?.changes ?? [],
    never: effects?.never ?? [],
    observe: entity && { entity: entity.name, tool: entity.observation?.tool.name ?? null, state: entity.kept ? 'gateway' : (entity.state?.source ?? null) },
  };
}
