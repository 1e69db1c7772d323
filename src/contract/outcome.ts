/** What a tool's answers mean, and how an outcome is found out or taken back. */
import type { Json, JsonObject, NextAction, Outcome } from '../model.js';
import { celUnknown } from './cel-types.js';
import { durationMs } from './duration.js';
import { type CompiledExpression, Names, unknownType } from './expressions.js';
import { responseTypes } from './observations.js';
import type { CallbackPlan, ErrorRule, ReadbackPlan, ToolPlan } from './plan.js';
import type { Path } from './pointer.js';
import type { References } from './references.js';
import { isSchemaObject } from './schema-subset.js';
import type { Site } from './site.js';
import type { ToolEntry } from './tool-entry.js';

export function compileErrors({ source, path }: ToolEntry, site: Site, answered: Names): ErrorRule[] {
  return (source.errors ?? []).map((rule, index) => ({
    when: site.expression([...path, 'errors', index, 'when'], rule.when, answered, 'bool'),
    outcome: rule.outcome,
    class: rule.class ?? null,
    code: rule.code ?? null,
    next: rule.next ?? impliedNext(rule.outcome),
    message: rule.message ?? null,
  }));
}

/** What may follow where the contract need not say it. */
function impliedNext(outcome: Outcome): NextAction {
  return outcome === 'committed' ? 'continue' : outcome === 'accepted' || outcome === 'unknown' ? 'wait' : 'escalate';
}

export function compileAsync(entry: ToolEntry, site: Site, { sending, answered: failed }: { sending: Names; answered: Names }): ToolPlan['async'] {
  const { source, path, acceptedBody, errorBody } = entry;
  if (!source.async) return null;
  const answered = acceptedBody === errorBody ? failed : sending.with({ ...responseTypes, body: acceptedBody });
  const accepted = site.expression([...path, 'async', 'accepted'], source.async.accepted, answered, 'bool');
  return { accepted, deadlineMs: durationMs(source.async.deadline), callback: compileCallback(entry, site, sending) };
}

const eventTypes = { headers: responseTypes.headers, body: responseTypes.body };
const eventNames = Names.of(eventTypes);

/** Which operation an event is about is found before anything else is known of it, so that rests on the event alone. */
function compileCallback(entry: ToolEntry, site: Site, sending: Names): CallbackPlan | null {
  const source = entry.source.async?.callback;
  if (!source) return null;
  const path = [...entry.path, 'async', 'callback'];
  const told = sending.with(eventTypes);
  const operation = site.expression([...path, 'operation'], source.operation, eventNames, 'json');
  const committed = site.expression([...path, 'committed'], source.committed, told, 'bool');
  const rejected = (source.rejected ?? []).map(({ when, code, next, message }, index): ErrorRule => ({
    when: readingEvent(site, [...path, 'rejected', index, 'when'], site.expression([...path, 'rejected', index, 'when'], when, told, 'bool')),
    outcome: 'rejected', class: null, code: code ?? null, next, message: message ?? null,
  }));
  const result = site.optional([...path, 'result'], source.result, told, 'json');
  if (result?.members) checkAnswer(entry, site, [...path, 'result'], result.members);
  return { operation: readingEvent(site, [...path, 'operation'], operation), committed: readingEvent(site, [...path, 'committed'], committed), result, rejected };
}

/** What reads nothing of the event would be proven by every event. */
function readingEvent<T>(site: Site, path: Path, expression: CompiledExpression<T>): CompiledExpression<T> {
  const reads = expression.names.has('body') || expression.names.has('headers') || expression.type === unknownType;
  if (!reads) site.findings.value(site.file, path, 'CG411', `\`${expression.source}\` reads neither \`body\` nor \`headers\``);
  return expression;
}

/**
 * `key` and `failed` are said of one `item`, and evaluated over the whole list in one expression each, so that their cost is bounded with the
 * list. Over the result alone: it is what a read-back can give as well.
 */
export function compilePartial(entry: ToolEntry, site: Site, names: Names): ToolPlan['partial'] {
  const source = entry.source.partial;
  if (!source) return null;
  const path = [...entry.path, 'partial'];
  const seen = names.with({ result: entry.resultType });
  const items = site.expression([...path, 'items'], source.items, seen, 'json');
  const element = /^list<(.+)>$/.exec(items.type)?.[1];
  if (element === undefined) {
    if (items.type !== unknownType) site.findings.value(site.file, [...path, 'items'], 'CG102', '`items` is a list: one element for each item of the call');
    return null;
  }
  const each = seen.with({ item: seen.typeNamed(element) });
  const key = site.expression([...path, 'key'], source.key, each, 'text');
  const failed = site.expression([...path, 'failed'], source.failed, each, 'bool');
  const others = (['unknown', 'retry'] as const).map((name) => site.optional([...path, name], source[name], each, 'bool'));
  if ([key, failed, ...others].some((one) => one?.type === unknownType)) return null;
  const ofAll = (name: 'key' | 'failed' | 'unknown' | 'retry', said: string): CompiledExpression<Json> => site.expression([...path, name], `(${source.items}).map(item, ${said})`, seen, 'json');
  return {
    keys: ofAll('key', source.key),
    failed: ofAll('failed', source.failed),
    unknown: source.unknown === undefined ? null : ofAll('unknown', source.unknown),
    retry: source.retry === undefined ? null : ofAll('retry', source.retry),
    at: placeOf(source.items, key),
  };
}

/** A list that is an argument as it stands, with keys that its items tell by themselves. */
function placeOf(items: string, key: CompiledExpression<unknown>): readonly string[] | null {
  const place = /^args((?:\.[A-Za-z_]\w*)+)$/.exec(items.trim())?.[1];
  return place !== undefined && [...key.names].every((name) => name === 'args' || name === 'item') ? place.slice(1).split('.') : null;
}

/** The plan, with what the release tests look at. */
export interface CompiledReadback {
  readonly plan: ReadbackPlan;
  readonly args: Record<string, CompiledExpression<Json>>;
  readonly committed: CompiledExpression<boolean>;
  readonly absent: CompiledExpression<boolean>;
}

export function compileReadback(entry: ToolEntry, site: Site, references: References, names: Names): CompiledReadback | null {
  const source = entry.source.readback;
  if (!source) return null;
  const path = [...entry.path, 'readback'];
  const target = references.read(site, source.tool, [...path, 'tool']);
  const args = site.members([...path, 'args'], source.args, names);
  if (target) references.arguments(site, target, args, [...path, 'args']);
  const found = names.with({ result: target?.resultType ?? celUnknown });
  const committed = site.expression([...path, 'committed'], source.committed, found, 'bool');
  const result = site.optional([...path, 'result'], source.result, found, 'json');
  if (result?.members) checkAnswer(entry, site, [...path, 'result'], result.members);
  const absent = site.expression([...path, 'absent'], source.absent, found, 'bool');
  return {
    args,
    committed,
    absent,
    plan: {
      tool: target?.plan as ToolPlan,
      args,
      committed,
      absent,
      result,
      settleAfterMs: durationMs(source.settle_after ?? '0s'),
      lagMs: durationMs(source.lag ?? '0s'),
    },
  };
}

/** The answer put together from a read-back is held against this tool's own result schema when it is given; by then it is too late. */
function checkAnswer({ source, admitResult }: ToolEntry, site: Site, path: Path, members: readonly string[]): void {
  const { properties, required = [], ...others } = source.result;
  if (!admitResult || !isSchemaObject(properties) || ['$ref', 'allOf', 'anyOf', 'oneOf', 'if'].some((keyword) => Object.hasOwn(others, keyword))) return;
  const missing = (required as string[]).filter((name) => !members.includes(name));
  for (const name of missing) site.findings.value(site.file, path, 'CG408', `the answer lacks \`${name}\`, which this tool's \`result\` requires`);
}

export function compileCompensation(entry: ToolEntry, site: Site, references: References, names: Names): ToolPlan['compensate'] {
  const source = entry.source.compensate;
  if (!source) return null;
  const path = [...entry.path, 'compensate'];
  const target = references.tool(site, source.tool, [...path, 'tool']);
  if (target && (target.source.effect === 'none' || target === entry))
    site.findings.value(site.file, [...path, 'tool'], 'CG412', target === entry ? `\`${source.tool}\` cannot undo itself` : `\`${source.tool}\` only reads, and takes nothing back`);
  const args = site.members([...path, 'args'], source.args as JsonObject, names.with({ result: entry.resultType }));
  if (target) references.arguments(site, target, args, [...path, 'args']);
  return { tool: source.tool, args };
}
