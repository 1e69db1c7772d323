/**
 * What each provider publishes, or answers, about the schemas of tools: JSON Schemas over schemas, with their sources. Written from
 * the providers' side and independently of src/contract/views/dialects.ts, so that a mistake in the one is not in the other.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Dialect } from '../../../src/contract/views/dialects.js';
import type { JsonObject } from '../../../src/model.js';

type Subset = Dialect | 'openai-strict';

interface PublishedRules {
  source: string[];
  name: string;
  maxTools?: number;
  maxDescription?: number;
  root: JsonObject;
  node: JsonObject;
  /** Across keywords, which no JSON Schema over schemas can say. */
  across: ('required-are-defined' | 'all-required' | 'valid-2020-12')[];
}

const array = (items: JsonObject): JsonObject => ({ type: 'array', items });
const node = { $ref: '#/$defs/node' };
const nodes: JsonObject = { type: 'object', additionalProperties: node };
const text = { type: 'string' };
const texts = array(text);
const count = { type: 'integer', minimum: 0 };
const number = { type: 'number' };
const present = (name: string): JsonObject => ({ required: [name] });
const without = (...names: string[]): JsonObject => ({ not: { anyOf: names.map(present) } });
const isType = (type: string): JsonObject => ({ required: ['type'], properties: { type: { anyOf: [{ const: type }, { type: 'array', contains: { const: type } }] } } });
const implies = (condition: JsonObject, consequence: JsonObject): JsonObject => ({ anyOf: [{ not: condition }, consequence] });

const openaiTypes = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];
const openaiNode: JsonObject = {
  type: 'object',
  additionalProperties: false,
  anyOf: [present('type'), present('anyOf'), present('$ref')],
  allOf: [implies(isType('array'), present('items'))],
  properties: {
    type: { anyOf: [{ enum: openaiTypes }, { type: 'array', minItems: 1, uniqueItems: true, items: { enum: openaiTypes } }] },
    description: text, title: text, enum: { type: 'array', minItems: 1 }, anyOf: { ...array(node), minItems: 1 },
    properties: nodes, required: texts, additionalProperties: { anyOf: [{ type: 'boolean' }, node] }, items: node,
    minItems: count, maxItems: count, minLength: count, maxLength: count, pattern: text, format: text,
    minimum: number, maximum: number, exclusiveMinimum: number, exclusiveMaximum: number, multipleOf: { exclusiveMinimum: 0 },
  },
};
const openaiRoot = { ...isType('object'), ...without('oneOf', 'anyOf', 'allOf', 'enum', 'not'), allOf: [present('properties'), node] };
const openai: PublishedRules = {
  source: [
    'platform.openai.com/docs/api-reference/chat/create#tools: name a-z, A-Z, 0-9, _ and -, at most 64; at most 128 functions',
    "the API: schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level (langchain-ai/langchainjs#9804)",
    "the API: 'allOf' is not permitted (makenotion/notion-mcp-server#102); array schema missing items (brainlid/langchain#148); schema must have a 'type' key (apexive/odoo-llm#212)",
    'the API: function.description at most 1024 (getsentry/sentry-mcp#106); lifted for some models since, kept by others',
  ],
  name: '^[a-zA-Z0-9_-]{1,64}$',
  maxTools: 128,
  maxDescription: 1024,
  root: openaiRoot,
  node: openaiNode,
  across: ['valid-2020-12'],
};

const strictNode: JsonObject = {
  type: 'object',
  additionalProperties: false,
  anyOf: [present('type'), present('anyOf')],
  allOf: [
    implies(isType('object'), { required: ['properties', 'required', 'additionalProperties'] }),
    implies(isType('array'), present('items')),
  ],
  properties: {
    type: { anyOf: [{ enum: openaiTypes }, { type: 'array', maxItems: 2, minItems: 2, contains: { const: 'null' }, items: { enum: openaiTypes } }] },
    description: text, enum: { type: 'array', minItems: 1 }, anyOf: { ...array(node), minItems: 1 },
    properties: nodes, required: texts, additionalProperties: { const: false }, items: node, minItems: count, maxItems: count, pattern: text,
    format: { enum: ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'] },
    minimum: number, maximum: number, exclusiveMinimum: number, exclusiveMaximum: number, multipleOf: { exclusiveMinimum: 0 },
  },
};

const anthropicNode: JsonObject = {
  type: 'object',
  ...without('$ref', '$dynamicRef', '$schema'),
  properties: { properties: { type: 'object', propertyNames: { pattern: '^[a-zA-Z0-9_.-]{1,64}$' }, additionalProperties: node }, items: node, anyOf: array(node) },
};

const geminiTypes = ['STRING', 'NUMBER', 'INTEGER', 'BOOLEAN', 'ARRAY', 'OBJECT'];
const only = (field: string, ...types: string[]): JsonObject => implies(present(field), { required: ['type'], properties: { type: { enum: types } } });
const geminiNode: JsonObject = {
  type: 'object',
  additionalProperties: false,
  properties: {
    type: { enum: geminiTypes }, format: text, description: text, nullable: { type: 'boolean' },
    enum: { type: 'array', minItems: 1, items: { type: 'string', minLength: 1 } }, items: node, minItems: count, maxItems: count,
    properties: { ...nodes, minProperties: 1 }, required: texts, minLength: count, maxLength: count, minimum: number, maximum: number,
    anyOf: { ...array(node), minItems: 1 },
  },
  oneOf: [{ required: ['type'], ...without('anyOf') }, { required: ['anyOf'], maxProperties: 1 }],
  allOf: [
    only('enum', 'STRING'), only('minLength', 'STRING'), only('maxLength', 'STRING'), only('minimum', 'NUMBER', 'INTEGER'), only('maximum', 'NUMBER', 'INTEGER'),
    only('properties', 'OBJECT'), only('required', 'OBJECT'), only('items', 'ARRAY'), only('minItems', 'ARRAY'), only('maxItems', 'ARRAY'),
    implies(isType('ARRAY'), present('items')), implies(isType('OBJECT'), present('properties')),
    implies({ required: ['format', 'type'], properties: { type: { const: 'STRING' } } }, { properties: { format: { enum: ['date-time', 'enum'] } } }),
  ],
};

const published: Record<Subset, PublishedRules> = {
  'openai-chat': openai,
  'openai-responses': openai,
  'openai-strict': {
    ...openai,
    source: ['platform.openai.com/docs/guides/structured-outputs#supported-schemas: types, string, number and array keywords, all fields required, additionalProperties false, no root anyOf, nesting at most 10'],
    root: { ...isType('object'), ...without('anyOf'), allOf: [node] },
    node: strictNode,
    across: ['valid-2020-12', 'all-required'],
  },
  anthropic: {
    source: [
      'docs.anthropic.com tool use: name ^[a-zA-Z0-9_-]{1,64}$; input_schema is JSON Schema of type object',
      'the API: input_schema does not support oneOf, allOf, or anyOf at the top level (anthropics/claude-code#40075)',
      "the API: property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$' (n8n-io/n8n#30590)",
      'platform.claude.com managed agents: `$ref` is rejected anywhere in a custom tool (quoted in diegosouzapw/OmniRoute#13552)',
    ],
    name: '^[a-zA-Z0-9_-]{1,64}$',
    root: { ...isType('object'), ...without('oneOf', 'anyOf', 'allOf'), allOf: [node] },
    node: anthropicNode,
    across: ['valid-2020-12'],
  },
  gemini: {
    source: [
      'googleapis google/ai/generativelanguage/v1beta/content.proto, message Schema, with anyOf, minimum, maximum, minLength, maxLength of ai.google.dev/api/caching#Schema; FunctionDeclaration.name at most 63',
      'the API: unknown name "exclusiveMinimum", "$schema", "additionalProperties" (ahmadrosid/nakama#292, thClaws/thClaws#172); numeric enum (weave-os/router#65)',
      "the API: only 'enum' and 'date-time' are supported for STRING type (hideya/langchain-mcp-tools-ts#36)",
      'the API: properties should be non-empty for OBJECT type (browser-use/browser-use#7); only allowed for OBJECT type (anomalyco/opencode#11889); items missing field (anomalyco/opencode#49392)',
    ],
    name: '^[a-zA-Z_][a-zA-Z0-9_-]{0,62}$',
    root: { ...isType('OBJECT'), allOf: [node] },
    node: geminiNode,
    across: ['required-are-defined'],
  },
  mcp: {
    source: ['modelcontextprotocol.io specification, server/tools: inputSchema is a JSON Schema object (2020-12 by default) of type object; outputSchema likewise'],
    name: '^[A-Za-z0-9_.-]{1,128}$',
    root: { ...isType('object'), allOf: [node] },
    node: { type: 'object' },
    across: ['valid-2020-12'],
  },
};

const ajv = new Ajv2020({ strict: false, allErrors: true });
const compiled = new Map(
  Object.entries(published).map(([subset, { root, node: each }]) => [subset, ajv.compile({ ...root, $defs: { node: each } })]),
);

export const publishedRules = published;

/** Why the provider would refuse the schema; empty when it takes it. */
export function refusals(subset: Subset, schema: JsonObject): string[] {
  const validate = compiled.get(subset)!;
  const found = validate(schema) ? [] : (validate.errors ?? []).map(({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`);
  for (const rule of published[subset].across) found.push(...acrossKeywords[rule](schema));
  return found;
}

const acrossKeywords: Record<PublishedRules['across'][number], (schema: JsonObject) => string[]> = {
  'valid-2020-12': (schema) => (ajv.validateSchema(schema) ? [] : [ajv.errorsText(ajv.errors)]),
  'all-required': (schema) => objects(schema).flatMap(({ properties, required }) => (same(Object.keys(properties ?? {}), required ?? []) ? [] : [`not all of ${Object.keys(properties ?? {}).join(', ')} are required`])),
  'required-are-defined': (schema) => objects(schema).flatMap(({ properties, required }) => (required ?? []).filter((name) => !Object.hasOwn(properties ?? {}, name)).map((name) => `required ${name} is not defined`)),
};

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each) => b.includes(each));
}

type Described = { type?: unknown; properties?: object; required?: string[]; items?: unknown; anyOf?: unknown[]; additionalProperties?: unknown };

/** All schemas within a schema; members of `properties` are not taken for keywords. */
function objects(schema: unknown): Described[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const described = schema as Described;
  const below = [...Object.values(described.properties ?? {}), described.items, described.additionalProperties, ...(described.anyOf ?? [])];
  return [described, ...below.flatMap(objects)];
}
