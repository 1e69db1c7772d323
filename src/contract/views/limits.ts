/** How much a model's view may be. A provider answers a request that carries more with an error, and a model with worse choices (case-60). */
import { diagnostic, type Diagnostic } from '../diagnostics.js';
import { type Dialect, dialects, rules } from './dialects.js';
import type { Catalogue } from '../plan.js';
import { modelTool } from './model.js';
import { type DialectView, projectTools } from './project.js';

const measures = ['tools', 'bytes', 'tokens'] as const;
type Measure = (typeof measures)[number];

/** Null: none, not even what is known of the provider. */
export type ViewLimits = Partial<Record<Dialect, Partial<Record<Measure, number | null>>>>;

export const limitGrammar = 'DIALECT, DIALECT=COUNT, DIALECT.bytes=COUNT, DIALECT.tokens=COUNT or DIALECT=none';

/**
 * `openai-chat` chooses a dialect with what is known of its provider, `openai-chat=100` says how many tools, `openai-chat.tokens=20000` how many
 * tokens, `none` that there is no limit.
 * @throws RangeError naming the one that is none of these
 */
export function readViewLimits(given: readonly string[]): ViewLimits {
  const limits: ViewLimits = {};
  for (const text of given) {
    const [, name, measure = 'tools', count] = /^([a-z-]+)(?:\.([a-z]+))?(?:=(none|[1-9]\d{0,8}))?$/.exec(text) ?? [];
    const dialect = dialects.find((known) => known === name);
    const measured = measures.find((known) => known === measure);
    if (!dialect || !measured || (count === undefined && text.includes('.')))
      throw new RangeError(`\`${text}\` is not ${limitGrammar}; dialects are ${dialects.join(', ')}`);
    limits[dialect] = { ...limits[dialect], ...(count === undefined ? {} : { [measured]: count === 'none' ? null : Number(count) }) };
  }
  return limits;
}

/** Of the dialects that were chosen. */
export function limitProblems(catalogue: Catalogue, limits: ViewLimits): Diagnostic[] {
  const chosen = dialects.filter((dialect) => limits[dialect] !== undefined);
  const tools = chosen.length === 0 ? [] : [...catalogue.tools.values()].map(modelTool);
  return chosen.flatMap((dialect) => viewProblems(projectTools(tools, dialect, limits[dialect]!.tools), limits));
}

/** Of one view, each measure that is over what was set for it, or over what its provider is known to take. */
export function viewProblems({ dialect, projection }: DialectView, limits: ViewLimits): Diagnostic[] {
  const set = { tools: rules[dialect].tools, bytes: null, tokens: null, ...limits[dialect] };
  return measures.flatMap((measure) => {
    const most = set[measure];
    if (most === null || projection[measure] <= most) return [];
    return [diagnostic('.', { line: 1, column: 1 }, 'CG620', `catalogue_too_large: the view for \`${dialect}\` has ${projection[measure]} ${measure}, and ${most} are the most`)];
  });
}
