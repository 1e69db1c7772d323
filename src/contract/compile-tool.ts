/** One tool: from its source to the plan that the gateway runs. */
import type { Json, JsonObject, NextAction, Outcome } from '../model.js';
import { celClass, celDyn, celInt, celList, celMap, celString, celTimestamp, celUnknown, type CelType } from './cel-types.js';
import type { EntitySource, ObservationSource, ToolSource } from './document.js';
import { durationMs } from './duration.js';
import { Names, type CompiledExpression } from './expressions.js';
import type { EntityPlan, ObservationPlan, Predicate, ReadbackPlan, ToolPlan, UpstreamPlan } from './plan.js';
import type { Path } from './pointer.js';
import { References } from './references.js';
import { compileRequest } from './request.js';
import { Site } from './site.js';
import { observedType, type ToolEntry } from './tool-entry.js';

/** Semantics.md section 10. */
const defaults = { attempts: 3, elapsedMs: 30_000, expiresMs: 15 * 60_000 };
const principalType = celClass(
  'principal',
  new Map<string, CelType>([
    ['id', celString],
    ['tenant', celString],
    ['subject', celString],
    ['roles', celList(celString)],
  ]),
);
const sessionType = celClass('session', new Map([['id', celString]]));
const operationType = celClass('operation', new Map([['id', celString]]));
const responseTypes = { status: celInt, headers: celMap(celString), body: celDyn };

/** Names that already mean something in every expression, and words of CEL. */
export const reservedNames: ReadonlySet<string> = new Set([
  'args',
  'bound',
  'principal',
  'subject',
  'session',
  'operation',
  'now',
  'status',
  'headers',
  'body',
  'result',
  'cel',
  'google',
  'true',
  'false',
  'null',
  'in',
  'as',
  'break',
  'const',
  'continue',
  'else',
  'for',
  'function',
  'if',
  'import',
  'let',
  'loop',
  'package',
  'namespace',
  'return',
  'var',
  'void',
  'while',
  'int',
  'uint',
  'double',
  'bool',
  'string',
  'bytes',
  'list',
  'map',
  'type',
  'dyn',
  'constructor',
  'prototype',
]);

/** What the release tests look at besides the source. */
export interface CompiledTool {
  readonly predicates: readonly { expression: CompiledExpression<boolean> }[];
  readonly changes: readonly { path: Path; expression: CompiledExpression<Json> }[];
  readonly readback: { args: Record<string, CompiledExpression<Json>>; committed: CompiledExpression<boolean> } | null;
}

export function compileTool(
  entry: ToolEntry,
  references: References,
  upstream: { plan: UpstreamPlan; base: string },
  digest: string,
): CompiledTool {
  const { source, path, plan } = entry;
  const site = new Site(entry.file, references.findings);
  const asked = Names.of({ args: entry.argsType, principal: principalType, subject: celString, session: sessionType });
  const entities = new EntityScope(entry, references, site, asked);
  const observations = Object.entries(source.observe ?? {}).map(([name, observation]) =>
    compileObservation(name, observation, [...path, 'observe', name], site, references, asked.with(entities.types)),
  );
  const seen = asked.with({ ...entities.types, ...Object.fromEntries(observations.map(({ plan: { name }, type }) => [name, type])) });
  const bind = site.members([...path, 'bind'], source.bind ?? {}, asked);
  const boundType = celClass('bound', new Map(Object.entries(bind).map(([name, { type }]) => [name, asked.typeNamed(type)])));
  const { names, lets } = compileLets(entry, site, seen.with({ bound: boundType, now: celTimestamp }));
  // The operation gets its id when all that may refuse it was asked, so only what is sent and what follows can name it.
  const sending = names.with({ operation: operationType });
  const answered = sending.with(responseTypes);
  const predicates = (source.preconditions ?? []).map(({ id, check, otherwise }, index) => ({
    id,
    otherwise,
    expression: site.expression([...path, 'preconditions', index, 'check'], check, names, 'bool'),
  }));
  const relation = ({ expression }: (typeof predicates)[number]): boolean => [...expression.names].every((name) => name === 'args');
  const toPlan =
    (next: NextAction) =>
    ({ id, expression, otherwise }: (typeof predicates)[number]): Predicate => ({
      id,
      check: expression,
      otherwise: { code: otherwise.code, next: otherwise.next ?? next, message: otherwise.message ?? null },
    });
  const changes = (source.effects?.changes ?? []).map((text, index) => {
    const place = [...path, 'effects', 'changes', index];
    return { path: place, expression: site.expression(place, text, names, 'json') };
  });
  const readback = compileReadback(entry, site, references, sending);

  Object.assign(plan, {
    name: entry.name,
    service: entry.document.service,
    version: source.version,
    digest,
    effect: source.effect,
    purpose: source.purpose,
    useWhen: source.use_when ?? null,
    notWhen: source.not_when ?? null,
    argsSchema: entry.args?.schema ?? source.args,
    resultSchema: source.result,
    examples: (source.examples ?? []).map(({ args }) => ({ args })),
    checkArguments: entry.args?.check,
    admitResult: entry.admitResult,
    bind,
    relations: predicates.filter(relation).map(toPlan('repair')),
    preconditions: predicates.filter((one) => !relation(one)).map(toPlan('refresh')),
    entity: entities.own,
    observesEntity: entities.observes,
    touches: entities.touched.map((entity) => ({ entity })),
    observations: observations.map((observation) => observation.plan),
    lets,
    expect: source.expect ?? 'observed',
    identity: {
      scope: source.identity?.scope ?? 'intent',
      arguments: source.identity?.arguments ?? null,
      windowMs: source.identity?.window ? durationMs(source.identity.window) : null,
    },
    repeatable: source.repeatable ?? false,
    render: compileRequest(entry, site, sending, upstream.base),
    idempotency: source.idempotency?.honoured && source.idempotency.window ? { windowMs: durationMs(source.idempotency.window) } : null,
    never: (source.effects?.never ?? []).map((text, index) => site.expression([...path, 'effects', 'never', index], text, names, 'json')),
    errors: (source.errors ?? []).map((rule, index) => ({
      when: site.expression([...path, 'errors', index, 'when'], rule.when, answered, 'bool'),
      outcome: rule.outcome,
      class: rule.class ?? null,
      code: rule.code ?? null,
      next: rule.next ?? impliedNext(rule.outcome),
      message: rule.message ?? null,
    })),
    notFound: site.optional([...path, 'not_found'], source.not_found, answered, 'bool'),
    readback: readback?.plan ?? null,
    verify: source.verify ?? (source.effect === 'none' ? 'on_ambiguity' : 'always'),
    onUnknown: source.on_unknown ?? 'reconcile',
    retry: {
      attempts: source.retry?.attempts ?? defaults.attempts,
      elapsedMs: source.retry?.elapsed ? durationMs(source.retry.elapsed) : defaults.elapsedMs,
    },
    approvals: (source.approval ?? []).map((rule, index) => {
      const place = [...path, 'approval', index];
      if (rule.summary !== undefined) site.template([...place, 'summary'], rule.summary, names);
      return {
        when: site.expression([...place, 'when'], rule.when, names, 'bool'),
        by: rule.by,
        approvals: rule.approvals ?? 1,
        expiresMs: rule.expires ? durationMs(rule.expires) : defaults.expiresMs,
        summary: rule.summary ?? null,
      };
    }),
    async: source.async
      ? {
          accepted: site.expression([...path, 'async', 'accepted'], source.async.accepted, answered, 'bool'),
          deadlineMs: durationMs(source.async.deadline),
        }
      : null,
    compensate: compileCompensation(entry, site, references, sending),
    redact: source.redact ?? [],
    upstream: upstream.plan,
  } satisfies { [K in keyof ToolPlan]: ToolPlan[K] | null | undefined });
  return { predicates, changes, readback };
}

/** What may follow where the contract need not say it. */
function impliedNext(outcome: Outcome): NextAction {
  return outcome === 'committed' ? 'continue' : outcome === 'accepted' || outcome === 'unknown' ? 'wait' : 'escalate';
}

/** The entity that a tool acts on, those that it touches, and the names that they bring into scope. */
class EntityScope {
  readonly own: EntityPlan | null;
  readonly observes: boolean;
  readonly touched: EntityPlan[] = [];
  readonly types: Record<string, CelType> = {};

  constructor(
    private readonly entry: ToolEntry,
    private readonly references: References,
    private readonly site: Site,
    private readonly asked: Names,
  ) {
    const { source, path } = entry;
    const served = servedEntity(entry);
    const name = source.entity ?? served;
    this.own = name === undefined ? null : this.add(name, source.entity === undefined ? path : [...path, 'entity']);
    this.observes = this.own !== null && name === served;
    for (const [index, touched] of (source.touches ?? []).entries()) {
      const plan = this.add(touched, [...path, 'touches', index]);
      if (plan) this.touched.push(plan);
    }
  }

  private add(name: string, path: Path): EntityPlan | null {
    const entity = this.references.entity(this.entry, name, path);
    if (!entity) return null;
    const place: Path = ['entities', name];
    const observation = compileObservation(name, entity.observe, [...place, 'observe'], this.site, this.references, this.asked);
    this.types[name] = observation.type;
    const state = Names.of({ [name]: observation.type });
    return {
      name,
      id: this.site.expression([...place, 'id'], entity.id, this.asked, 'string'),
      observation: observation.plan,
      state: this.site.optional([...place, 'state'], entity.state, state, 'string'),
      states: entity.states ?? [],
      external: entity.external ?? [],
      transitions: entity.transitions ?? {},
    };
  }
}

/** The entity, if any, whose observation this tool is; of several, the first by name. */
function servedEntity({ name, document, source }: ToolEntry): string | undefined {
  const served = (Object.entries(document.entities ?? {}) as [string, EntitySource][])
    .filter(([, entity]) => entity.observe.tool === name)
    .map(([entity]) => entity)
    .sort();
  return source.entity !== undefined && served.includes(source.entity) ? source.entity : served[0];
}

function compileObservation(
  name: string,
  source: ObservationSource,
  path: Path,
  site: Site,
  references: References,
  names: Names,
): { plan: ObservationPlan; type: CelType } {
  const target = references.read(site, source.tool, [...path, 'tool']);
  const args = site.members([...path, 'args'], source.args, names);
  if (target) references.arguments(site, target, args, [...path, 'args']);
  const response = Names.of(target ? { ...responseTypes, result: target.resultType } : responseTypes);
  const version = site.optional([...path, 'version'], source.version, response, 'string');
  return {
    plan: { name, tool: target?.plan as ToolPlan, args, version, maxAgeMs: durationMs(source.max_age) },
    type: target ? observedType(target, version !== null) : celUnknown,
  };
}

/** In the order of their dependencies, not of the text: the order of members is no part of the canonical source. */
function compileLets({ source, path }: ToolEntry, site: Site, given: Names): { names: Names; lets: ToolPlan['lets'] } {
  const waiting = new Map(Object.entries(source.let ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
  const lets: { name: string; value: CompiledExpression<Json> }[] = [];
  let names = given;
  const mentions = (text: string): boolean => [...waiting.keys()].some((other) => new RegExp(`\\b${other}\\b`).test(text));
  while (waiting.size > 0) {
    // When each waits for another there is a circle; compiling one anyway reports its unknown name.
    const [name, text] = [...waiting].find(([, candidate]) => !mentions(candidate)) ?? [...waiting][0]!;
    waiting.delete(name);
    const value = site.expression([...path, 'let', name], text, names, 'json');
    lets.push({ name, value });
    names = names.withLazy(name, value);
  }
  return { names, lets };
}

function compileReadback(
  entry: ToolEntry,
  site: Site,
  references: References,
  names: Names,
): { plan: ReadbackPlan; args: Record<string, CompiledExpression<Json>>; committed: CompiledExpression<boolean> } | null {
  const source = entry.source.readback;
  if (!source) return null;
  const path = [...entry.path, 'readback'];
  const target = references.read(site, source.tool, [...path, 'tool']);
  const args = site.members([...path, 'args'], source.args, names);
  if (target) references.arguments(site, target, args, [...path, 'args']);
  const found = names.with({ result: target?.resultType ?? celUnknown });
  const committed = site.expression([...path, 'committed'], source.committed, found, 'bool');
  return {
    args,
    committed,
    plan: {
      tool: target?.plan as ToolPlan,
      args,
      committed,
      absent: site.expression([...path, 'absent'], source.absent, found, 'bool'),
      result: site.optional([...path, 'result'], source.result, found, 'json'),
      settleAfterMs: durationMs(source.settle_after ?? '0s'),
      lagMs: durationMs(source.lag ?? '0s'),
    },
  };
}

function compileCompensation(entry: ToolEntry, site: Site, references: References, names: Names): ToolPlan['compensate'] {
  const source: ToolSource['compensate'] = entry.source.compensate;
  if (!source) return null;
  const path = [...entry.path, 'compensate'];
  const target = references.tool(site, source.tool, [...path, 'tool']);
  const args = site.members([...path, 'args'], source.args as JsonObject, names.with({ result: entry.resultType }));
  if (target) references.arguments(site, target, args, [...path, 'args']);
  return { tool: source.tool, args };
}
