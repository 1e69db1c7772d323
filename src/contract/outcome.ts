/** What a tool's answers mean, and how an outcome is found out or taken back. */
import type { Json, JsonObject, NextAction, Outcome } from '../model.js';
import { celUnknown } from './cel-types.js';
import { durationMs } from './duration.js';
import { type CompiledExpression, type Names, unknownType } from './expressions.js';
import type { ErrorRule, ReadbackPlan, ToolPlan } from './plan.js';
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

export function compileAsync({ source, path }: ToolEntry, site: Site, answered: Names): ToolPlan['async'] {
  if (!source.async) return null;
  const accepted = site.expression([...path, 'async', 'accepted'], source.async.accepted, answered, 'bool');
  return { accepted, deadlineMs: durationMs(source.async.deadline) };
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
  if (key.type === unknownType || failed.type === unknownType) return null;
  return {
    keys: site.expression([...path, 'key'], `(${source.items}).map(item, ${source.key})`, seen, 'json'),
    failed: site.expression([...path, 'failed'], `(${source.items}).map(item, ${source.failed})`, seen, 'json'),
  };
}

/** The plan, with what the release tests look at. */
export interface CompiledReadback {
  readonly plan: ReadbackPlan;
  readonly args: Record<string, CompiledExpression<Json>>;
  readonly committed: CompiledExpression<boolean>;
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
  return {
    args,
    committed,
    plan: {
      tool: target?.plan as ToolPlan,
      args,
      committed,
      absent: site.expression([...path, 'absent'], source.absent, found, 'bool'),
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
  const args = site.members([...path, 'args'], source.args as JsonObject, names.with({ result: entry.resultType }));
  if (target) references.arguments(site, target, args, [...path, 'args']);
  return { tool: source.tool, args };
}
