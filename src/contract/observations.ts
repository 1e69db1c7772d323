/** What is read before a call is decided: one resource, or one for each element of a list; each may rest on those before it. */
import type { Json } from '../model.js';
import { type CelType, celDyn, celInt, celMap, celString, celUnknown } from './cel-types.js';
import type { ObservationSource } from './document.js';
import { durationMs } from './duration.js';
import { type CompiledExpression, type Names, namesIn, unknownType } from './expressions.js';
import type { ObservationPlan, ToolPlan } from './plan.js';
import type { Path } from './pointer.js';
import type { References } from './references.js';
import type { Site } from './site.js';
import type { ToolEntry } from './tool-entry.js';

export const responseTypes = { status: celInt, headers: celMap(celString), body: celDyn };
/** Of one observation: a decision that needs more is one that the service should offer to make. */
const maxReads = 100;

interface Declared {
  name: string;
  source: ObservationSource;
  path: Path;
}
export interface Observed {
  plan: ObservationPlan;
  type: CelType;
}

export function mentioned({ args, for_each: each }: ObservationSource): ReadonlySet<string> {
  const texts = [...Object.values(args), ...(each ? [each.in] : [])].filter((value) => typeof value === 'string');
  return new Set(texts.flatMap((text) => [...namesIn(text)]));
}

export function compileObservation({ name, source, path }: Declared, site: Site, references: References, names: Names): Observed {
  const { target, args } = compileRead(source, path, site, references, names);
  const response = names.only(target ? { ...responseTypes, result: target.resultType } : responseTypes);
  const version = site.optional([...path, 'version'], source.version, response, 'string');
  return {
    plan: { name, tool: target?.plan as ToolPlan, each: null, args, version, maxAgeMs: durationMs(source.max_age), needs: [] },
    type: !target ? celUnknown : version ? target.versionedType : target.resultType,
  };
}

function compileRead(
  source: ObservationSource,
  path: Path,
  site: Site,
  references: References,
  names: Names,
): { target: ToolEntry | undefined; args: Record<string, CompiledExpression<Json>> } {
  const target = references.read(site, source.tool, [...path, 'tool']);
  const args = site.members([...path, 'args'], source.args, names);
  if (target) references.arguments(site, target, args, [...path, 'args']);
  return { target, args };
}

/** Becomes a map from each element to what was read for it; elements are taken once each, and one that is not found is not in it. */
export function compileEach(
  { name, source, path }: Declared,
  each: NonNullable<ObservationSource['for_each']>,
  site: Site,
  references: References,
  names: Names,
): Observed {
  const place = [...path, 'for_each'];
  const list = site.expression([...place, 'in'], each.in, names, 'json');
  const element = /^list<(string|int)>$/.exec(list.type)?.[1] as 'string' | 'int' | undefined;
  if (!element && list.type !== unknownType)
    site.findings.value(site.file, [...place, 'in'], 'CG102', '`for_each` goes through a list of texts or of integers');
  if (names.knows(each.as))
    site.findings.value(site.file, [...place, 'as'], 'CG613', `\`${each.as}\` already has a meaning in expressions`);
  const most = Math.min(each.max ?? Number.POSITIVE_INFINITY, list.maxItems ?? Number.POSITIVE_INFINITY);
  if (most > maxReads && list.type !== unknownType) {
    const bound = most === Number.POSITIVE_INFINITY ? 'nothing bounds the list' : `the list may hold ${most} elements, and ${maxReads} reads are the most`;
    site.findings.key(site.file, place, 'CG113', `\`${name}\` could be any number of reads: ${bound}`);
  }
  if (source.version !== undefined)
    site.findings.key(site.file, [...path, 'version'], 'CG113', 'a version belongs to one resource, and `for_each` reads several');
  const inner = element ? names.with({ [each.as]: element === 'int' ? celInt : celString }) : names.with({ [each.as]: celUnknown });
  const { target, args } = compileRead(source, path, site, references, inner);
  return {
    plan: {
      name,
      tool: target?.plan as ToolPlan,
      each: { list, as: each.as, max: most },
      args,
      version: null,
      maxAgeMs: durationMs(source.max_age),
      needs: [],
    },
    type: target && element ? celMap(target.resultType, { key: element, maxItems: most }) : celUnknown,
  };
}
