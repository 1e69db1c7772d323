/**
 * The release tests (contracts.md): a contract compiles only when its effects are named, its errors mapped, its ambiguity
 * resolvable and its authority mechanical. That its preconditions resolve was found while compiling its expressions.
 */
import type { JsonObject } from '../model.js';
import { type CompiledTool, isRelation } from './compile-tool.js';
import { acts, type ContractDocument, type EntitySource, type ErrorSource, keptByGateway } from './document.js';
import { type CompiledExpression, unknownType } from './expressions.js';
import type { Findings } from './findings.js';
import { nearest } from './nearest.js';
import type { CompiledReadback } from './outcome.js';
import type { Path } from './pointer.js';
import { isSchemaObject } from './schema-subset.js';
import { reservedNames } from './scope.js';
import { constrainsByPolicy } from '../policy/constraint.js';
import type { Policy } from '../policy/read.js';
import type { SourceFile } from './source.js';
import type { ToolEntry, Tools } from './tool-entry.js';

/** @param policies null where some could not be read: they might be what constrains an argument */
export function checkTool(entry: ToolEntry, compiled: CompiledTool, tools: Tools, policies: readonly Policy[] | null, findings: Findings): void {
  checkShown(entry, findings);
  checkNames(entry, findings);
  checkExamples(entry, compiled, findings);
  checkErrors(entry, findings);
  checkAuthority(entry, compiled, policies, findings);
  if (entry.source.effect === 'none') checkRead(entry, findings);
  else checkWrite(entry, compiled, tools, findings);
}

function checkWrite(entry: ToolEntry, compiled: CompiledTool, tools: Tools, findings: Findings): void {
  checkEffects(entry, compiled, findings);
  checkAmbiguity(entry, compiled, findings);
  checkLegality(entry, tools, findings);
}

/** What would never be shown was meant for something. */
function checkShown({ source, file, path }: ToolEntry, findings: Findings): void {
  const shows = (source.errors ?? []).some(({ outcome, class: kind }) => (outcome === 'rejected' || outcome === 'not_committed') && kind !== 'not_found');
  if ((source.public ?? []).length > 0 && !shows) findings.key(file, [...path, 'public'], 'CG303', 'no error is mapped whose members could be shown');
}

function checkNames({ source, args, file, path, document }: ToolEntry, findings: Findings): void {
  const properties = isSchemaObject(source.args['properties']) ? source.args['properties'] : {};
  if (!/^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$/.test(source.version))
    findings.value(file, [...path, 'version'], 'CG608', `\`${source.version}\` is not a semantic version`);
  const taken = new Set([...reservedNames, ...Object.keys(document.entities ?? {})]);
  for (const section of ['observe', 'let'] as const) {
    for (const name of Object.keys(source[section] ?? {})) {
      if (taken.has(name)) findings.key(file, [...path, section, name], 'CG613', `\`${name}\` already has a meaning in expressions`);
      taken.add(name);
    }
  }
  for (const name of Object.keys(source.bind ?? {})) {
    if (Object.hasOwn(properties, name))
      findings.key(file, [...path, 'bind', name], 'CG502', `\`${name}\` is bound, and the model could send it as an argument too`);
  }
  const known = (name: string, place: Path): void => {
    if (!args || Object.hasOwn(properties, name)) return; // what a broken schema declares is not known
    const meant = nearest(name, Object.keys(properties));
    findings.value(file, place, 'CG615', `there is no argument \`${name}\`${meant ? `; did you mean \`${meant}\`?` : ''}`);
  };
  (source.identity?.arguments ?? []).forEach((name, index) => known(name, [...path, 'identity', 'arguments', index]));
  (source.authority ?? []).forEach((name, index) => known(name.slice('args.'.length), [...path, 'authority', index]));
}

/** An example is a call that shape and relations let through, a counterexample one that they refuse: a model learns from both. */
function checkExamples({ source, args, file, path }: ToolEntry, { predicates }: CompiledTool, findings: Findings): void {
  if (!args || predicates.some(({ expression }) => expression.type === unknownType)) return;
  const relations = predicates.filter(({ expression }) => isRelation(expression));
  const refusal = (given: JsonObject): string | undefined => {
    const verdict = args.checkOnce(given);
    if (verdict.ok) return relations.find(({ expression }) => !holds(expression, verdict.args))?.expression.source;
    const [first] = verdict.errors;
    const bound = Object.keys(source.bind ?? {}).find((name) => first?.pointer === `/${name}`);
    return bound === undefined ? `${first?.pointer ?? ''} ${first?.message ?? ''}`.trim() : `/${bound} is bound, and never sent by the model`;
  };
  for (const [index, example] of (source.examples ?? []).entries()) {
    const reason = refusal(example.args);
    if (reason !== undefined) findings.value(file, [...path, 'examples', index], 'CG607', `the example is not a valid call: \`${reason}\``);
  }
  for (const [index, counterexample] of (source.counterexamples ?? []).entries()) {
    if (refusal(counterexample.args) === undefined)
      findings.value(file, [...path, 'counterexamples', index], 'CG618', 'neither the schema nor a relation refuses the counterexample');
  }
}

function holds(relation: CompiledExpression<boolean>, args: JsonObject): boolean {
  try {
    return relation.evaluate({ args });
  } catch {
    return false; // at run time what cannot be evaluated is refused
  }
}

function checkErrors({ source, file, path }: ToolEntry, findings: Findings): void {
  for (const [index, rule] of (source.errors ?? []).entries()) {
    const place = [...path, 'errors', index];
    if (rule.next === undefined && !['committed', 'accepted'].includes(rule.outcome))
      findings.value(file, place, 'CG301', `the error \`${rule.when}\` does not say what the model may do next`);
    if (rule.next === 'retry' && !mayRetry(rule, source.effect === 'none' || source.idempotency?.honoured === true)) {
      findings.value(file, [...place, 'next'], 'CG302', `\`retry\` after \`outcome: ${rule.outcome}\` could repeat an effect`);
    }
  }
}

function mayRetry({ outcome }: ErrorSource, harmless: boolean): boolean {
  return outcome === 'not_committed' || (harmless && (outcome === 'rejected' || outcome === 'unknown'));
}

function checkRead({ source, file, path }: ToolEntry, findings: Findings): void {
  for (const member of ['effects', 'idempotency', 'readback', 'compensate', 'async', 'touches', 'partial', 'approval'] as const) {
    if (source[member] !== undefined) findings.key(file, [...path, member], 'CG203', `a tool with \`effect: none\` has no \`${member}\``);
  }
}

function checkEffects({ source, file, path }: ToolEntry, { changes }: CompiledTool, findings: Findings): void {
  const { effects, http } = source;
  if (effects?.creates === undefined && (effects?.changes ?? []).length === 0)
    findings.key(file, effects ? [...path, 'effects'] : path, 'CG201', 'the write does not say what it creates or changes');
  if (effects?.never === undefined)
    findings.key(file, effects ? [...path, 'effects'] : path, 'CG202', 'the write does not say what it must never change');
  if (source.durability === 'relaxed') findings.value(file, [...path, 'durability'], 'CG206', 'a write is durable before it is sent and before it is answered');
  if (http.method === 'GET') findings.value(file, [...path, 'http', 'method'], 'CG204', 'a write cannot be sent as GET');
  for (const { path: place, expression } of changes) {
    const loose = [...expression.names].find((name) => Object.hasOwn(source.observe ?? {}, name));
    if (loose !== undefined)
      findings.value(file, place, 'CG110', `the tool changes \`${loose}\`, which nothing keeps still between observation and write`);
  }
}

function checkAmbiguity(entry: ToolEntry, { readback }: CompiledTool, findings: Findings): void {
  const { source, file, path, document } = entry;
  const { idempotency, on_unknown: onUnknown } = source;
  if (idempotency?.honoured && idempotency.window === undefined)
    findings.key(file, [...path, 'idempotency'], 'CG405', 'it is not said how long an honoured key is kept');
  if (!source.readback && !idempotency?.honoured && onUnknown !== 'review')
    findings.key(file, path, 'CG401', `nothing can settle an unknown outcome of \`${path.at(-1)}\``);
  if (onUnknown === 'review' && source.effect === 'irreversible' && (source.approval ?? []).length === 0) {
    findings.key(
      file,
      [...path, 'on_unknown'],
      'CG403',
      'the irreversible effect has neither a machine that settles it nor a person who approves it',
    );
  }
  if (source.partial && source.readback && source.readback.result === undefined)
    findings.key(file, [...path, 'readback'], 'CG409', 'after a lost answer nothing tells which items were done');
  if (source.partial?.retry !== undefined && !source.idempotency?.honoured)
    findings.key(file, [...path, 'partial', 'retry'], 'CG413', 'the same request sent again without an honoured key could do the items again that were done');
  if (source.async && !source.readback) findings.key(file, [...path, 'async'], 'CG407', 'there is no read-back to poll');
  if (source.async?.callback && !document.upstream.callbacks)
    findings.key(file, [...path, 'async', 'callback'], 'CG410', 'without `upstream.callbacks` there is no secret by which a callback of the service could be told from one of somebody else');
  if (!source.readback || !readback) return;
  if (source.readback.settle_after === undefined)
    findings.key(file, [...path, 'readback'], 'CG402', 'it is not said after how long an absent effect is really absent');
  checkReadback(entry, readback, findings);
}

function checkReadback({ file, path, plan }: ToolEntry, { args, committed, absent }: CompiledReadback, findings: Findings): void {
  const verdicts = { committed, absent };
  if (Object.values(verdicts).some(({ type }) => type === unknownType)) return;
  for (const [name, { names }] of Object.entries(verdicts)) {
    if (!names.has('result')) findings.value(file, [...path, 'readback', name], 'CG414', `\`${name}\` reads nothing of \`result\``);
  }
  if (committed.source === absent.source) findings.value(file, [...path, 'readback', 'absent'], 'CG414', '`committed` and `absent` say the same');
  const byId = [...Object.values(args), committed].some(({ names, type }) => names.has('operation') || type === unknownType);
  // What was observed is kept with the intent, and so is what it was before the call.
  const before = [plan.entity, ...plan.touches.map(({ entity }) => entity)].flatMap((entity) => (entity?.observation ? [entity.name] : [])).concat(plan.observations.map(({ name }) => name));
  const byComparison = Object.values(verdicts).every(({ names }) => before.some((name) => names.has(name)));
  if (!byId && !byComparison) findings.key(file, [...path, 'readback'], 'CG406', 'the read-back does not tell this operation’s effect from an earlier equal one');
}

function checkAuthority(
  { name, source, file, path, plan }: ToolEntry,
  { predicates }: CompiledTool,
  policies: readonly Policy[] | null,
  findings: Findings,
): void {
  if (predicates.some(({ expression }) => expression.type === unknownType)) return; // reported where it stands; it may be what holds
  const ofTheModel = new Set(['args', 'now', 'session', 'operation']);
  for (const [index, field] of (source.authority ?? []).entries()) {
    const held = predicates.some(
      ({ expression: { paths, names } }) => paths.has(field) && [...names].some((one) => !ofTheModel.has(one)),
    );
    if (!held && policies !== null && !constrainsByPolicy(policies, name, plan.entity?.name ?? null, field))
      findings.value(file, [...path, 'authority', index], 'CG501', `nothing but text of the model decides \`${field}\``);
  }
}

/** A write on an entity with a transition table has to be legal somewhere. An action of the table that is no tool was reported, and may have been meant. */
function checkLegality({ name, source, file, path, document }: ToolEntry, tools: Tools, findings: Findings): void {
  const entity = source.entity === undefined ? undefined : document.entities?.[source.entity];
  if (!entity?.transitions) return;
  const actions = new Set(Object.values(entity.transitions).flatMap((row) => Object.keys(row)));
  if (actions.has(name) || [...actions].some((action) => !tools.entries.has(action) && !tools.broken.has(action))) return;
  findings.value(file, [...path, 'entity'], 'CG611', `\`${name}\` is legal in no state of \`${source.entity}\``);
}

const wordsOfCedar: ReadonlySet<string> = new Set(['then', 'is', 'like', 'has']);

/** The transition tables of one file. */
export function checkEntities(file: SourceFile, document: ContractDocument, tools: Tools, findings: Findings): void {
  for (const [name, entity] of Object.entries(document.entities ?? {})) {
    const path: Path = ['entities', name];
    if (reservedNames.has(name) || wordsOfCedar.has(name)) findings.key(file, path, 'CG613', `\`${name}\` already has a meaning in expressions or policies`);
    if (keptByGateway(entity)) checkKept(file, path, entity, findings);
    if (entity.states) checkStates(file, path, entity, entity.states, findings);
    checkActions(file, name, entity, tools, findings);
  }
}

function checkKept(file: SourceFile, path: Path, { initial = [], external }: EntitySource, findings: Findings): void {
  if (initial.length !== 1) findings.key(file, [...path, 'initial'], 'CG619', `a state that the gateway keeps begins in one, and ${initial.length} are given`);
  if (external !== undefined) findings.key(file, [...path, 'external'], 'CG619', 'a state that the gateway keeps is entered by nothing but its actions');
}

function checkStates(file: SourceFile, path: Path, entity: EntitySource, states: readonly string[], findings: Findings): void {
  const reached = new Set([...(entity.initial ?? []), ...(entity.external ?? [])]);
  const before = findings.list.length;
  const known = (state: string, report: (message: string) => void): void => {
    const meant = nearest(state, states);
    if (!states.includes(state)) report(`there is no state \`${state}\`${meant ? `; did you mean \`${meant}\`?` : ''}`);
  };
  for (const section of ['initial', 'external'] as const) {
    (entity[section] ?? []).forEach((state, index) =>
      known(state, (message) => findings.value(file, [...path, section, index], 'CG609', message)),
    );
  }
  for (const [state, actions] of Object.entries(entity.transitions ?? {})) {
    known(state, (message) => findings.key(file, [...path, 'transitions', state], 'CG609', message));
    for (const [action, next] of Object.entries(actions)) {
      reached.add(next);
      known(next, (message) => findings.value(file, [...path, 'transitions', state, action], 'CG609', message));
    }
  }
  // A state that was misspelt where it is led to is reported there, and not as one that nothing leads to.
  if (findings.list.length > before) return;
  states.forEach((state, index) => {
    if (!reached.has(state)) findings.value(file, [...path, 'states', index], 'CG610', `nothing leads to the state \`${state}\``);
  });
}

/** Its entity is misspelt, which is reported there. */
function actsOnNothingKnown({ source: { entity }, document: { entities = {} } }: ToolEntry): boolean {
  return entity !== undefined && !Object.hasOwn(entities, entity);
}

function checkActions(file: SourceFile, name: string, entity: EntitySource, tools: Tools, findings: Findings): void {
  for (const [state, actions] of Object.entries(entity.transitions ?? {})) {
    for (const action of Object.keys(actions)) {
      const place: Path = ['entities', name, 'transitions', state, action];
      const entry = tools.entries.get(action);
      if (!entry) {
        const meant = nearest(action, tools.entries.keys());
        if (!tools.broken.has(action))
          findings.key(file, place, 'CG106', `there is no tool \`${action}\`${meant ? `; did you mean \`${meant}\`?` : ''}`);
      } else if (entry.file !== file || entry.source.effect === 'none' || !(acts(entry.source, name) || actsOnNothingKnown(entry))) {
        findings.key(file, place, 'CG612', `\`${action}\` is not a write on \`${name}\``);
      }
    }
  }
}
