/** One tool: from its source to the plan that the gateway runs. */
import type { Json, NextAction } from '../model.js';
import type { ContractDefaults } from './defaults.js';
import type { PredicateSource } from './document.js';
import { durationMs } from './duration.js';
import type { CompiledExpression, Names } from './expressions.js';
import { type CompiledReadback, compileAsync, compileCompensation, compileErrors, compilePartial, compileReadback } from './outcome.js';
import type { ArgumentsVerdict, EntityPlan, Predicate, ToolPlan, TouchedEntity, UpstreamPlan } from './plan.js';
import type { Path } from './pointer.js';
import type { References } from './references.js';
import { compileRequest } from './request.js';
import { compileScope, type ToolScope } from './scope.js';
import { Site } from './site.js';
import { renderText } from './templates.js';
import type { ToolEntry } from './tool-entry.js';

/** What the release tests look at besides the source. */
export interface CompiledTool {
  readonly predicates: readonly { expression: CompiledExpression<boolean> }[];
  readonly changes: readonly { path: Path; expression: CompiledExpression<Json> }[];
  readonly readback: CompiledReadback | null;
}

export interface Target {
  plan: UpstreamPlan;
  /** Absolute URL before every path. */
  base: string;
  defaults: ContractDefaults;
}

/** Fills `entry.plan`. It is whole only when nothing was reported. */
export function compileTool(entry: ToolEntry, references: References, target: Target, digest: string): CompiledTool {
  const site = new Site(entry.file, references.findings);
  const scope = compileScope(entry, references, site);
  const readback = compileReadback(entry, site, references, scope.sending);
  const predicates = compilePredicates(entry, site, scope.deciding);
  const plan: { [K in keyof ToolPlan]: ToolPlan[K] | null | undefined } = {
    ...described(entry, digest),
    ...decided(entry, references, site, scope, target.defaults),
    relations: predicates.filter(({ expression }) => isRelation(expression)).map((predicate) => predicatePlan(predicate, 'repair')),
    preconditions: predicates.filter(({ expression }) => !isRelation(expression)).map((predicate) => predicatePlan(predicate, 'refresh')),
    ...sent(entry, site, scope, target),
    errors: compileErrors(entry, site, scope.answered),
    notFound: site.optional([...entry.path, 'not_found'], entry.source.not_found, scope.answered, 'bool'),
    readback: readback?.plan ?? null,
    async: compileAsync(entry, site, scope),
    partial: compilePartial(entry, site, scope.sending),
    compensate: compileCompensation(entry, site, references, scope.sending),
    touches: scope.entities.touched.map((entity) => touchedBy(entry, entity, site.read)),
  };
  Object.assign(entry.plan, plan);
  // What a write changes is never evaluated, so naming it makes no observation needed.
  return { predicates, changes: compileChanges(entry, new Site(entry.file, references.findings), scope.deciding), readback };
}

/** @param read by any expression of the tool, all of which have been compiled */
function touchedBy({ name }: ToolEntry, entity: EntityPlan, read: ReadonlySet<string>): TouchedEntity {
  const governed = Object.values(entity.transitions).some((actions) => Object.hasOwn(actions, name));
  return { entity, governed, observed: entity.observation !== null && (read.has(entity.name) || (governed && entity.state !== null)) };
}

function described({ name, document, source, args, admitResult }: ToolEntry, digest: string) {
  return {
    name,
    service: document.service,
    version: source.version,
    digest,
    effect: source.effect,
    purpose: source.purpose,
    useWhen: source.use_when ?? null,
    notWhen: source.not_when ?? null,
    argsSchema: args?.schema ?? source.args,
    resultSchema: source.result,
    examples: (source.examples ?? []).map(({ args: example, why }) => ({ args: example, why: why ?? null })),
    counterexamples: (source.counterexamples ?? []).map(({ args: example, why }) => ({ args: example, why })),
    checkArguments: args?.check ?? refuseArguments,
    admitResult: admitResult ?? (() => null),
    redact: source.redact ?? [],
    public: source.public ?? [],
    untrusted: source.untrusted ?? false,
    durability: source.durability ?? ('strict' as const),
  };
}

/** Where the schema did not compile, which was reported. */
function refuseArguments(): ArgumentsVerdict {
  return { ok: false, errors: [] };
}

/** Everything that is asked before a call is sent, and what makes two calls the same. */
function decided(entry: ToolEntry, references: References, site: Site, { deciding, bound, entities, lets }: ToolScope, defaults: ContractDefaults) {
  const { name, source } = entry;
  const { identity } = source;
  return {
    bind: bound.bind,
    bindLast: bound.bindLast,
    lasts: bound.lasts,
    remembered: references.remembered.has(name),
    undoes: references.undoing.has(name),
    entity: entities.own,
    observesEntity: entities.observes,
    observations: entities.observations,
    lets,
    expect: source.expect ?? ('observed' as const),
    identity: {
      scope: identity?.scope ?? ('intent' as const),
      arguments: identity?.arguments ?? null,
      windowMs: identity?.window ? durationMs(identity.window) : null,
    },
    repeatable: source.repeatable ?? false,
    approvals: compileApprovals(entry, site, deciding, defaults),
  };
}

/** The request, and what is kept, retried and verified after it. */
function sent(entry: ToolEntry, site: Site, { deciding, sending }: ToolScope, { plan, base, defaults }: Target) {
  const { source, path } = entry;
  const { idempotency, retry, effects } = source;
  return {
    render: compileRequest(entry, site, sending, base),
    idempotency: idempotency?.honoured && idempotency.window ? { windowMs: durationMs(idempotency.window) } : null,
    never: (effects?.never ?? []).map((text, index) => site.expression([...path, 'effects', 'never', index], text, deciding, 'json')),
    verify: source.verify ?? (source.effect === 'none' ? ('on_ambiguity' as const) : ('always' as const)),
    retry: { attempts: retry?.attempts ?? defaults.attempts, elapsedMs: retry?.elapsed ? durationMs(retry.elapsed) : defaults.elapsedMs },
    upstream: plan,
  };
}

type CompiledPredicate = PredicateSource & { expression: CompiledExpression<boolean> };

function compilePredicates({ source, path }: ToolEntry, site: Site, names: Names): CompiledPredicate[] {
  return (source.preconditions ?? []).map((predicate, index) => ({
    ...predicate,
    expression: site.expression([...path, 'preconditions', index, 'check'], predicate.check, names, 'bool'),
  }));
}

/** A check that names only arguments needs no observation and is answered before any is made. */
export function isRelation({ names }: CompiledExpression<boolean>): boolean {
  return [...names].every((name) => name === 'args');
}

function predicatePlan({ id, expression, otherwise }: CompiledPredicate, next: NextAction): Predicate {
  return { id, check: expression, otherwise: { code: otherwise.code, next: otherwise.next ?? next, message: otherwise.message ?? null } };
}

function compileChanges({ source, path }: ToolEntry, site: Site, names: Names): CompiledTool['changes'] {
  return (source.effects?.changes ?? []).map((text, index) => {
    const place = [...path, 'effects', 'changes', index];
    return { path: place, expression: site.expression(place, text, names, 'json') };
  });
}

/** The summary names arguments alone: what a person reads must be what was proposed, and not what was seen around it. */
function compileApprovals({ source, path: place, argsType }: ToolEntry, site: Site, deciding: Names, { approvalExpiresMs }: ContractDefaults): ToolPlan['approvals'] {
  const path = [...place, 'approval'];
  return (source.approval ?? []).map((rule, index) => {
    const { summary } = rule;
    const template = summary === undefined ? null : site.template([...path, index, 'summary'], summary, deciding.only({ args: argsType }));
    return {
      when: site.expression([...path, index, 'when'], rule.when, deciding, 'bool'),
      by: rule.by,
      approvals: rule.approvals ?? 1,
      expiresMs: rule.expires ? durationMs(rule.expires) : approvalExpiresMs,
      summary: template === null ? null : { source: summary ?? '', render: (args) => renderText(template, { args }) },
    };
  });
}
