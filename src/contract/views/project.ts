/** The tools of a catalogue, or those that one caller may use, as one provider takes them, with the report of the projection. */
import type { Json, JsonObject } from '../../model.js';
import { isSchemaObject } from '../schema-subset.js';
import { type Dialect, type DialectRules, openaiStrict, rules, type Subset } from './dialects.js';
import type { ModelTool } from './model.js';
import { type Dropped, type Projected, projectSchema } from './project-schema.js';
import { type Size, sizeOf } from './size.js';

export interface Projection extends Size {
  /** Tools that one request of this provider may carry; null: no limit is known. */
  limit: number | null;
  over_limit: boolean;
  /** What the model is not told in this dialect and the gateway still enforces. */
  dropped: (Dropped & { tool: string })[];
  /** Tools that have no form in this dialect; the others are not touched by it. */
  excluded: { tool: string; pointer: string; why: string }[];
  /** Of OpenAI Responses: which tools claim `strict`, and why the others do not. */
  strict?: { tool: string; strict: boolean; pointer?: string; why?: string }[];
}

export interface DialectView {
  dialect: Dialect;
  /** To be put into a request of the provider as they are. */
  tools: JsonObject[];
  projection: Projection;
}

/** @param limit tools in one request, where it differs from what is known of the provider. */
export function projectTools(tools: readonly ModelTool[], dialect: Dialect, limit: number | null = rules[dialect].tools): DialectView {
  const each = tools.map((tool) => projectTool(tool, dialect));
  const taken = each.flatMap(({ entry }) => (entry ? [entry] : []));
  const wrapped = dialect === 'gemini' && taken.length > 0 ? [{ functionDeclarations: taken }] : taken;
  const strict = each.flatMap(({ strict: claim }) => (claim ? [claim] : []));
  return {
    dialect,
    tools: wrapped,
    projection: {
      ...sizeOf(taken.length, wrapped),
      limit,
      over_limit: limit !== null && taken.length > limit,
      dropped: each.flatMap(({ dropped }) => dropped),
      excluded: each.flatMap(({ excluded }) => (excluded ? [excluded] : [])),
      ...(strict.length > 0 ? { strict } : {}),
    },
  };
}

interface One {
  entry: JsonObject | null;
  dropped: Projection['dropped'];
  excluded?: Projection['excluded'][number];
  strict?: NonNullable<Projection['strict']>[number];
}

function projectTool(tool: ModelTool, dialect: Dialect): One {
  const dialectRules = rules[dialect];
  const excluded = (pointer: string, why: string): One => ({ entry: null, dropped: [], excluded: { tool: tool.name, pointer, why } });
  if (!dialectRules.name.test(tool.name)) return excluded('', `the provider takes no tool named \`${tool.name}\``);
  const strict = dialect === 'openai-responses' ? projected(tool.input_schema, openaiStrict) : null;
  const input = strict?.ok ? strict : projected(tool.input_schema, dialectRules.subset);
  if (!input.ok) return excluded(input.pointer, input.why);
  const dropped: Dropped[] = [...input.dropped];
  const description = described(tool, dialectRules, dropped);
  const entry = envelopes[dialect]({ ...tool, description }, input.schema, strict?.ok === true, dropped);
  return {
    entry,
    dropped: dropped.map((each) => ({ tool: tool.name, ...each })),
    ...(strict
      ? { strict: { tool: tool.name, strict: strict.ok, ...(strict.ok ? {} : { pointer: strict.pointer, why: strict.why }) } }
      : {}),
  };
}

const cache = new WeakMap<JsonObject, Map<Subset, Projected>>();

/** Schemas are immutable and served for long; projecting one takes a hundred times longer than looking it up. */
function projected(schema: JsonObject, subset: Subset): Projected {
  const known = cache.get(schema) ?? new Map<Subset, Projected>();
  cache.set(schema, known);
  const result = known.get(subset) ?? withinLimits(projectSchema(schema, subset), subset);
  known.set(subset, result);
  return result;
}

const maxStrictDepth = 10;
const maxStrictEnumValues = 1000;

function withinLimits(result: Projected, subset: Subset): Projected {
  if (!result.ok || !subset.strict) return result;
  const { depth, enumValues } = measure(result.schema);
  if (depth > maxStrictDepth) return { ok: false, pointer: '', why: `objects are nested ${depth} deep, of at most ${maxStrictDepth}` };
  if (enumValues > maxStrictEnumValues)
    return { ok: false, pointer: '', why: `${enumValues} values are enumerated, of at most ${maxStrictEnumValues}` };
  return result;
}

function measure(schema: Json): { depth: number; enumValues: number } {
  if (typeof schema !== 'object' || schema === null) return { depth: 0, enumValues: 0 };
  const below = Object.values(schema).map(measure);
  const deeper = isSchemaObject(schema) && (schema['type'] === 'object' || isSchemaObject(schema['properties'])) ? 1 : 0;
  const own = isSchemaObject(schema) && Array.isArray(schema['enum']) ? schema['enum'].length : 0;
  return {
    depth: deeper + Math.max(0, ...below.map(({ depth }) => depth)),
    enumValues: own + below.reduce((sum, each) => sum + each.enumValues, 0),
  };
}

/** The lines of a description are in the order of what a model can least do without. */
function described({ description }: ModelTool, { description: limit }: DialectRules, dropped: Dropped[]): string {
  if (limit === null || description.length <= limit) return description;
  const lines = description.split('\n');
  while (lines.length > 1 && lines.join('\n').length > limit) lines.pop();
  dropped.push({
    pointer: '',
    keyword: 'description',
    why: `the provider takes ${limit} characters of the ${description.length} of the description`,
  });
  return lines.join('\n').slice(0, limit);
}

type Envelope = (tool: ModelTool, schema: JsonObject, strict: boolean, dropped: Dropped[]) => JsonObject;

const envelopes: Readonly<Record<Dialect, Envelope>> = {
  'openai-chat': ({ name, description }, parameters) => ({ type: 'function', function: { name, description, parameters } }),
  // Said in any case: left unsaid, the Responses API makes a schema strict by itself, and optional members required.
  'openai-responses': ({ name, description }, parameters, strict) => ({ type: 'function', name, description, parameters, strict }),
  anthropic: ({ name, description }, schema) => ({ name, description, input_schema: schema }),
  gemini: ({ name, description }, schema) => {
    const none = Object.keys(schema['properties'] as JsonObject).length === 0;
    return { name, description, ...(none ? {} : { parameters: schema }) };
  },
  mcp: ({ name, description, output_schema: output, effect, idempotent }, schema, _, dropped) => {
    const structured = isSchemaObject(output) && output['type'] === 'object';
    if (!structured)
      dropped.push({ pointer: '', keyword: 'outputSchema', why: 'the result is not an object, and MCP describes nothing else' });
    const annotations = {
      readOnlyHint: effect === 'none',
      destructiveHint: effect === 'irreversible',
      idempotentHint: idempotent,
      openWorldHint: false,
    };
    return { name, description, inputSchema: schema, ...(structured ? { outputSchema: output } : {}), annotations };
  },
};
