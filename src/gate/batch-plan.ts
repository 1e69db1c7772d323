/**
 * What is known of the calls of a turn before any of them runs: what identifies each, and what each is on. Without I/O, from a first
 * reading that decides nothing: the pipeline reads every call again when its place comes.
 */
import { randomUUID } from 'node:crypto';
import { canonicalText } from '../canonical.js';
import { EvaluationError } from '../contract/plan.js';
import { isRefusal } from '../errors.js';
import type { Json, Principal } from '../model.js';
import type { TurnCall } from '../ports.js';
import type { Ordered } from './batch-order.js';
import { authorizeTool } from './authorize.js';
import type { ParsedCall, PermittedCall, ShapedCall, TurnContext } from './calls.js';
import { entitiesOf, identifiable } from './entities.js';
import { identityArguments } from './identity.js';
import { callIdOf, parse, type Received, type TurnMembers } from './parse.js';
import { isListed } from './listed.js';
import type { Parts } from './parts.js';
import { Progress } from './progress.js';
import { callScope } from './scope.js';
import { validateShape } from './validate.js';

/** The calls of one turn, as they came. */
export interface Turn {
  principal: Principal;
  members: TurnMembers;
  calls: readonly TurnCall[];
  /** By position: what identifies each call within session and turn. */
  names: readonly Json[];
  cut: string | null;
}

export interface Planned { order: Ordered[]; contexts: TurnContext[] }

/** The n-th call of a batch under one id is identified by (id, n), so that none is lost and a batch that is sent again is recognised. */
export function namesById(calls: readonly Json[]): Json[] {
  const times = new Map<string, number>();
  return calls.map((members) => {
    const id = callIdOf(members);
    if (id === undefined) return null;
    const n = (times.get(id) ?? 0) + 1;
    times.set(id, n);
    return n === 1 ? id : [id, n];
  });
}

export function plan(parts: Parts, turn: Turn): Planned {
  const seen = turn.calls.map((_, position) => look(parts, turn, position));
  const meanings = new Map<string, { name: Json; occurrences: Map<number, number> }>();
  for (const [position, { meaning, occurrence }] of seen.entries()) {
    if (meaning === null) continue;
    const before = meanings.get(meaning);
    if (!before) meanings.set(meaning, { name: turn.names[position] as Json, occurrences: new Map([[occurrence, position]]) });
    else {
      before.name ??= turn.names[position] as Json;
      if (!before.occurrences.has(occurrence)) before.occurrences.set(occurrence, position);
    }
  }
  const loose = looseIn(seen.map(({ shaped }) => shaped));
  for (const meant of meanings.values()) meant.name ??= randomUUID();
  return {
    contexts: seen.map(({ meaning }, position) => ({
      name: turn.names[position] as Json, sameAs: (meaning === null ? undefined : meanings.get(meaning)?.name) ?? null, cut: turn.cut,
    })),
    order: seen.map(({ meaning, occurrence, ordered, shaped }) => ({
      ...ordered,
      lines: shaped ? linesOf(shaped, ordered.keys, loose) : ordered.lines,
      after: [...(meaning === null ? [] : (meanings.get(meaning)?.occurrences ?? []))].filter(([other]) => other < occurrence).map(([, position]) => position),
    })),
  };
}

interface Sight { ordered: Omit<Ordered, 'after'>; shaped: ShapedCall | null; /** Equal for writes that mean the same effect, whichever occurrence of it. */ meaning: string | null; occurrence: number }

function look(parts: Parts, { principal, members, calls, names, cut }: Turn, position: number): Sight {
  const unknown: Sight = { ordered: { position, write: true, keys: [], lines: [], judged: false, tables: [] }, shaped: null, meaning: null, occurrence: 1 };
  const given = calls[position] as TurnCall;
  if ('unusable' in given || !namesTool(parts, principal, given.members)) return unknown;
  const progress = new Progress(() => undefined);
  const context = { name: names[position] as Json, sameAs: null, cut };
  const parsed = parse(parts, { principal, turn: members, members: given.members, context }, progress);
  if (isRefusal(parsed)) return unknown;
  const { tool, envelope } = parsed;
  const write = tool.effect !== 'none';
  const shaped = validateShape(parsed, progress);
  // What is refused for its shape is still proposed on something: those behind it on that were proposed on the assumption that it works.
  if (isRefusal(shaped)) {
    const keys = keysAsGiven(parsed);
    return { ...unknown, ordered: { ...unknown.ordered, write, keys, lines: keys } };
  }
  const keys = keysOf(shaped);
  const judged = write && (tool.lasts.length > 0 || entitiesOf(tool).some(({ governed }) => governed));
  return {
    ordered: { position, write, keys, lines: keys, judged, tables: write ? tablesOf(shaped) : [] },
    shaped,
    meaning: write ? canonicalText([tool.name, identityArguments(tool, shaped.args)]) : null,
    occurrence: envelope.occurrence,
  };
}

/** A call whose turn has not come, as far as its words go. Null: it will be refused for them. */
export function readAgain(parts: Parts, received: Received): PermittedCall | null {
  const progress = new Progress(() => undefined);
  const parsed = parse(parts, received, progress);
  const shaped = isRefusal(parsed) ? parsed : validateShape(parsed, progress);
  const permitted = isRefusal(shaped) ? shaped : authorizeTool(shaped.served.policy, shaped);
  return isRefusal(permitted) ? null : permitted;
}

/** Told from the members alone: what is near to a misspelt name is looked for once, when the call is refused. */
function namesTool(parts: Parts, principal: Principal, members: Json): boolean {
  const name = members !== null && typeof members === 'object' && !Array.isArray(members) ? members['tool'] : undefined;
  return typeof name === 'string' && isListed(principal, name) && parts.served().catalogue.tools.has(name);
}

/** A read of an entity that only an observation tells is on none as far as is known here: it comes after every write before it. */
function keysOf({ tool, identity }: ShapedCall): readonly string[] {
  if (tool.effect !== 'none') return identity.guardKeys;
  return identity.entity ? [identity.entity.key] : [];
}

function tablesOf({ tool, identity }: ShapedCall): Ordered['tables'] {
  return identity.entities.filter(({ governed }) => governed).map(({ plan, key }) => ({ entity: key, legalIn: (state) => plan.transitions[state]?.[tool.name] !== undefined }));
}

function keysAsGiven({ tool, principal, envelope, given }: ParsedCall): string[] {
  try {
    return identifiable(tool, callScope({ principal, envelope, args: given, bound: {} }), () => false).map(({ key }) => key);
  } catch (error) {
    if (error instanceof EvaluationError) return [];
    throw error;
  }
}

/** What a call that runs somewhere in the turn may turn out to be on, and what it waits for: kinds of entities, and results of other tools. */
interface Loose { kinds: ReadonlySet<string>; results: ReadonlySet<string> }

function looseIn(calls: readonly (ShapedCall | null)[]): Loose {
  const shaped = calls.filter((call) => call !== null);
  return {
    kinds: new Set(shaped.filter(({ tool }) => tool.effect !== 'none').flatMap(kindsLeftOpen)),
    results: new Set(shaped.flatMap(({ tool }) => tool.lasts.map((last) => last.tool))),
  };
}

function kindsLeftOpen({ tool, identity }: ShapedCall): string[] {
  return entitiesOf(tool).flatMap(({ entity }) => (identity.entities.some(({ plan }) => plan === entity) ? [] : [entity.name]));
}

function linesOf(call: ShapedCall, keys: readonly string[], { kinds, results }: Loose): string[] {
  const { tool, identity } = call;
  const names = tool.effect === 'none' ? identity.entities.map(({ plan }) => plan.name) : entitiesOf(tool).map(({ entity }) => entity.name);
  return [
    ...keys, ...names.filter((name) => kinds.has(name)).map((name) => `any ${name}`),
    ...[tool.name, ...tool.lasts.map((last) => last.tool)].filter((name) => results.has(name)).map((name) => `result of ${name}`),
  ];
}
