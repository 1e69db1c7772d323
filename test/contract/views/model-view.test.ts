/** What a model is told of a tool: enough to propose well and to go on after a refusal, and nothing of how it is executed. */
import { beforeAll, describe, expect, test } from 'vitest';
import { compileFolder } from '../../../src/contract/compile.js';
import type { Catalogue } from '../../../src/contract/plan.js';
import { SchemaCompiler } from '../../../src/contract/schemas.js';
import { type Dialect, dialects, rules } from '../../../src/contract/views/dialects.js';
import { modelTool, type ModelTool } from '../../../src/contract/views/model.js';
import { projectTools } from '../../../src/contract/views/project.js';
import type { Json, JsonObject } from '../../../src/model.js';
import { projectFile } from '../../../src/project.js';
import { catalogueOf, mutated, retailFolder } from '../fixture.js';
import { publishedRules, refusals } from './provider-subsets.js';

let catalogue: Catalogue;
let tools: ModelTool[];
beforeAll(() => {
  catalogue = catalogueOf(compileFolder(retailFolder, {}));
  tools = [...catalogue.tools.values()].map(modelTool);
});

const tool = (name: string, input_schema: JsonObject, more: Partial<ModelTool> = {}): ModelTool => ({
  name, description: 'Does.', input_schema, output_schema: { type: 'object' }, effect: 'none', idempotent: true, ...more,
});
const closed = (properties: JsonObject, required: string[] = Object.keys(properties)): JsonObject => ({ type: 'object', properties, required, additionalProperties: false });

/** Of an entry in any of the envelopes. */
function parts(dialect: Dialect, entry: JsonObject): { name: string; description: string; schema: JsonObject } {
  const inner = (dialect === 'openai-chat' ? entry['function'] : entry) as JsonObject;
  const schema = inner['parameters'] ?? inner['input_schema'] ?? inner['inputSchema'];
  return { name: String(inner['name']), description: String(inner['description']), schema: schema as JsonObject };
}

function entries(dialect: Dialect, given: readonly ModelTool[]) {
  const { tools: wrapped, projection } = projectTools(given, dialect);
  const flat = dialect === 'gemini' ? wrapped.flatMap((each) => each['functionDeclarations'] as JsonObject[]) : wrapped;
  return { entries: flat.map((entry) => ({ ...parts(dialect, entry), entry })), projection };
}

describe.each(dialects)('the example in %s', (dialect) => {
  test('every tool is there, under a name, a description and a schema that the provider takes', () => {
    const { entries: all, projection } = entries(dialect, tools);
    expect(all.map(({ name }) => name)).toEqual([...catalogue.tools.keys()]);
    expect(projection).toMatchObject({ tools: tools.length, excluded: [], over_limit: false });
    for (const { name, description, schema } of all) {
      expect(name).toMatch(new RegExp(publishedRules[dialect].name));
      expect(name.length).toBeLessThanOrEqual(64);
      expect(description.length).toBeLessThanOrEqual(publishedRules[dialect].maxDescription ?? 4096);
      expect(refusals(dialect, schema), JSON.stringify(schema)).toEqual([]);
    }
  });

  test('bound arguments, occurrence, intent ids, keys and hosts are in none of it, but for the results of MCP', () => {
    const text = JSON.stringify(projectTools(tools, dialect), (key, value) => (key === 'outputSchema' ? undefined : value));
    expect(text).not.toMatch(/customer_id|operation\.id|occurrence|intent|idempotency.?key|127\.0\.0\.1|principal|Bearer|If-Match/i);
  });
});

describe.each(['tau1', 'tau2'])('the retail domain of a benchmark, %s', (version) => {
  test.each(dialects)('all of its tools are taken by %s', (dialect) => {
    const folder = projectFile('examples', 'tau-retail', 'contracts', version);
    const given = [...catalogueOf(compileFolder(folder, {})).tools.values()].map(modelTool);
    const { entries: all, projection } = entries(dialect, given);
    expect([all.length, projection.excluded]).toEqual([given.length, []]);
    for (const { schema } of all) if (schema) expect(refusals(dialect, schema), JSON.stringify(schema)).toEqual([]);
  });
});

describe('a description', () => {
  const lines = () => tools.find(({ name }) => name === 'issue_credit')!.description.split('\n');

  test('says purpose, when and when not, effect, what to do after an unknown outcome and after each refusal, and an example', () => {
    expect(lines()).toEqual([
      'Give the customer store credit against one delivered order.',
      'Use when: The order is delivered and the customer asked for an amount within the refundable balance.',
      'Do not use when: The order is pending, or the amount was not agreed with the customer.',
      'Effect: a change that cannot be undone. Some calls first wait for a person to approve them. An equal call is not executed again.',
      'After `pending` or `unknown`: wait and ask for that operation; do not propose another call in its place.',
      'Legal in: DELIVERED.',
      'When refused: AMOUNT_EXCEEDS_BALANCE: ask; ORDER_CHANGED: refresh; CREDIT_LIMIT: escalate; ORDER_NOT_DELIVERED: refresh; NOT_THE_CUSTOMERS_ORDER: abandon.',
      'Example: {"order_id":"O-417","amount":2500,"currency":"GBP"}',
    ]);
  });

  test('carries counterexamples with their reasons', () => {
    const { dir } = mutated('    args:\n      type: object\n      properties: { receipt_id', '    counterexamples: [{ args: { receipt_id: order O-417 }, why: that is an order }]\n    args:\n      type: object\n      properties: { receipt_id');
    const changed = modelTool(catalogueOf(compileFolder(dir, {})).tools.get('void_credit')!);
    expect(changed.description).toMatch(/\nDo not propose: {"receipt_id":"order O-417"} \(that is an order\)$/);
  });

  test('that is too long for a provider loses whole lines from its end, and the report says so', () => {
    const long = tool('long', closed({}), { description: `Purpose.\nUse when: now.\nExample: ${'x'.repeat(2000)}` });
    const { entries: [chat], projection } = entries('openai-chat', [long]);
    expect(chat!.description).toBe('Purpose.\nUse when: now.');
    expect(projection.dropped).toEqual([{ tool: 'long', pointer: '', keyword: 'description', why: expect.stringContaining('1024') }]);
    expect(entries('anthropic', [long]).entries[0]!.description).toBe(long.description);
  });

  test('without lines to lose is cut, never refused', () => {
    expect(entries('openai-chat', [tool('long', closed({}), { description: 'x'.repeat(2000) })]).entries[0]!.description).toHaveLength(1024);
  });
});

describe('case-62: one schema that a provider refuses kills every request', () => {
  const document = closed({ doc_id: { type: 'string' }, link: { type: 'string', format: 'uri' }, n: { type: 'integer', exclusiveMinimum: 0 }, lvl: { enum: [1, 2] } }, []);
  const { additionalProperties: _, ...open } = document;
  const source: JsonObject = { ...open, oneOf: [{ required: ['doc_id'] }, { required: ['link'] }] };
  const authority = new SchemaCompiler().arguments(source, 'none');

  test.each(dialects)('%s takes the projection of the case, and the report names all that it leaves out', (dialect) => {
    const { entries: [entry], projection } = entries(dialect, [tool('find', authority.schema)]);
    expect(refusals(dialect, entry!.schema)).toEqual([]);
    expect(Object.keys(entry!.schema['properties'] as object)).toEqual(['doc_id', 'link', 'n', 'lvl']);
    expect(projection.dropped).toContainEqual({ tool: 'find', pointer: '', keyword: 'oneOf', why: 'which members go together is not said' });
  });

  test('what is left out is enforced all the same', () => {
    expect(authority.check({})).toMatchObject({ ok: false });
    expect(authority.check({ n: 0, link: 'https://x.test/' })).toMatchObject({ ok: false, errors: [{ pointer: '/n', code: 'exclusive_minimum' }] });
    expect(authority.check({ n: 1, link: 'https://x.test/', lvl: 2 })).toMatchObject({ ok: true });
  });

  test('Gemini is told in its own words what has no keyword there: the bound exactly, format and numbers in the description', () => {
    const { entries: [entry] } = entries('gemini', [tool('find', authority.schema)]);
    expect(entry!.schema['properties']).toEqual({
      doc_id: { type: 'STRING' },
      link: { type: 'STRING', description: 'Written as uri.' },
      n: { type: 'INTEGER', minimum: 1 },
      lvl: { type: 'INTEGER', description: 'One of 1, 2.' },
    });
  });

  test('a tool that has no form in a dialect is left out and reported, and breaks no other', () => {
    const odd = tool('odd', closed({ 'a b': { type: 'string' } }));
    const map = tool('map', closed({ counts: { type: 'object', additionalProperties: { type: 'integer' } } }));
    const shouted = tool('no.dots', closed({}));
    const given = [odd, tool('fine', authority.schema), map, shouted];
    const names = (dialect: Dialect) => entries(dialect, given).entries.map(({ name }) => name);
    expect(names('anthropic')).toEqual(['fine', 'map']);
    expect(entries('anthropic', given).projection.excluded).toEqual([
      { tool: 'odd', pointer: '/properties/a b', why: 'a member cannot be named `a b`' },
      { tool: 'no.dots', pointer: '', why: 'the provider takes no tool named `no.dots`' },
    ]);
    expect(names('gemini')).toEqual(['odd', 'fine']);
    expect(names('openai-chat')).toEqual(['odd', 'fine', 'map']);
    expect(names('mcp')).toEqual(['odd', 'fine', 'map', 'no.dots']);
  });

  test('an optional member without a form is left out alone', () => {
    const { entries: [entry], projection } = entries('gemini', [tool('t', closed({ id: { type: 'string' }, counts: { type: 'object', additionalProperties: { type: 'integer' } } }, ['id']))]);
    expect(entry!.schema).toEqual({ type: 'OBJECT', properties: { id: { type: 'STRING' } }, required: ['id'] });
    expect(projection.dropped).toContainEqual(expect.objectContaining({ pointer: '/properties/counts', keyword: 'properties' }));
  });

  test('a value that fits two alternatives, with the members of both, is not refused by either', () => {
    const { schema, check } = new SchemaCompiler().arguments(
      { type: 'object', properties: { x: { anyOf: [{ type: 'object', properties: { a: { type: 'string' } } }, { type: 'object', properties: { b: { type: 'string' } } }] } } },
      'none',
    );
    expect(check({ x: { a: '1', b: '2' } })).toMatchObject({ ok: true });
    for (const dialect of ['openai-chat', 'anthropic', 'mcp'] as const) {
      expect(JSON.stringify(entries(dialect, [tool('t', schema)]).entries[0]!.schema['properties'])).not.toContain('additionalProperties');
    }
  });

  test('references in circles end: each provider gets a finite schema', () => {
    const tree: JsonObject = {
      ...closed({ root: { $ref: '#/$defs/node' } }),
      $defs: { node: closed({ name: { type: 'string' }, children: { type: 'array', maxItems: 3, items: { $ref: '#/$defs/node' } } }, ['name']), loop: { allOf: [{ $ref: '#/$defs/loop' }] } },
    };
    for (const dialect of dialects) {
      const { entries: [entry], projection } = entries(dialect, [tool('grow', tree)]);
      expect(refusals(dialect, entry!.schema)).toEqual([]);
      expect(projection.dropped).toContainEqual(expect.objectContaining({ pointer: '/$defs/node/properties/children/items' }));
    }
    const wide = (depth: number): JsonObject => (depth === 0 ? { type: 'string' } : closed({ a: { $ref: `#/$defs/d${depth - 1}` }, b: { $ref: `#/$defs/d${depth - 1}` } }));
    const bomb = { ...closed({ x: { $ref: '#/$defs/d30' } }), $defs: Object.fromEntries([...Array(31).keys()].map((depth) => [`d${depth}`, wide(depth)])) };
    expect(entries('anthropic', [tool('bomb', bomb)]).projection.excluded).toMatchObject([{ tool: 'bomb', why: expect.stringContaining('2000') }]);
  });
});

describe('OpenAI Responses claims strict', () => {
  const claim = (schema: JsonObject) => entries('openai-responses', [tool('t', schema)]);

  test('where every member of every object is required and nothing further is admitted', () => {
    const { entries: [entry], projection } = claim(closed({ id: { type: 'string', maxLength: 20 }, at: closed({ city: { type: ['string', 'null'] } }), tags: { type: 'array', items: { enum: ['a', 'b'] } } }));
    expect(entry!.entry['strict']).toBe(true);
    expect(refusals('openai-strict', entry!.schema)).toEqual([]);
    expect(projection.strict).toEqual([{ tool: 't', strict: true }]);
    expect(projection.dropped).toEqual([{ tool: 't', pointer: '/properties/id', keyword: 'maxLength', why: expect.stringContaining('in words') }]);
    expect((entry!.schema['properties'] as JsonObject)['id']).toEqual({ type: 'string', description: 'At most 20 characters.' });
  });

  test.each<[string, JsonObject, string]>([
    ['a member is optional: `null` in its place would not be a valid call', closed({ id: { type: 'string' }, note: { type: 'string' } }, ['id']), 'not every member is required'],
    ['an object inside is open', closed({ counts: { type: 'object', additionalProperties: { type: 'integer' } } }), 'the object is not closed'],
    ['the schema is part of itself', { ...closed({ n: { $ref: '#/$defs/n' } }), $defs: { n: closed({ n: { anyOf: [{ $ref: '#/$defs/n' }, { type: 'null' }] } }) } }, 'the schema is part of itself'],
    ['it is nested too deep', [...Array(11)].reduce<JsonObject>((inner) => closed({ a: inner }), { type: 'string' }), 'nested 11 deep'],
    ['it enumerates too much', closed({ a: { enum: [...Array(1001).keys()].map(String) } }), '1001 values'],
  ])('and not where %s', (_, schema, why) => {
    const { entries: [entry], projection } = claim(schema);
    expect(entry!.entry['strict']).toBe(false);
    expect(refusals('openai-responses', entry!.schema)).toEqual([]);
    expect(projection.strict).toMatchObject([{ tool: 't', strict: false, why: expect.stringContaining(why) }]);
  });
});

test('MCP annotations follow the effect class; only objects are described as results', () => {
  const entry = (more: Partial<ModelTool>) => entries('mcp', [tool('t', closed({}), more)]).entries[0]!.entry;
  expect(entry({ effect: 'none' })['annotations']).toMatchObject({ readOnlyHint: true, destructiveHint: false });
  expect(entry({ effect: 'write' })['annotations']).toMatchObject({ readOnlyHint: false, destructiveHint: false, idempotentHint: true });
  expect(entry({ effect: 'irreversible', idempotent: false })['annotations']).toMatchObject({ readOnlyHint: false, destructiveHint: true, idempotentHint: false });
  expect(entry({})).toHaveProperty('outputSchema', { type: 'object' });
  const listed = entries('mcp', [tool('t', closed({}), { output_schema: { type: 'array' } })]);
  expect(listed.entries[0]!.entry).not.toHaveProperty('outputSchema');
  expect(listed.projection.dropped).toMatchObject([{ keyword: 'outputSchema' }]);
});

describe('case-60: far too many tools', () => {
  const many = (count: number) => [...Array(count).keys()].map((index) => tool(`op_${index}`, closed({ id: { type: 'string' } })));

  test('the report has count, bytes and tokens, and says when a provider takes fewer', () => {
    for (const dialect of ['openai-chat', 'openai-responses', 'gemini'] as const) {
      expect(rules[dialect].tools).toBe(128);
      expect(entries(dialect, many(128)).projection).toMatchObject({ tools: 128, limit: 128, over_limit: false });
      expect(entries(dialect, many(684)).projection).toMatchObject({ tools: 684, limit: 128, over_limit: true });
    }
    expect(entries('anthropic', many(684)).projection).toMatchObject({ tools: 684, limit: null, over_limit: false });
    const { tools: wrapped, projection } = projectTools(many(684), 'anthropic');
    expect(projection.bytes).toBe(Buffer.byteLength(JSON.stringify(wrapped)));
    expect(projection.tokens).toBe(Math.ceil(projection.bytes / 4));
  });

  test('the limit is the operator’s to set', () => {
    expect(projectTools(many(30), 'anthropic', 20).projection).toMatchObject({ limit: 20, over_limit: true });
    expect(projectTools(many(200), 'openai-chat', null).projection).toMatchObject({ limit: null, over_limit: false });
  });
});

test('the oracle refuses what the providers were seen to refuse', () => {
  const refused: [Parameters<typeof refusals>[0], Json][] = [
    ['anthropic', { type: 'object', properties: {}, oneOf: [] }],
    ['anthropic', closed({ 'a b': { type: 'string' } })],
    ['anthropic', closed({ a: { $ref: '#/$defs/x' } })],
    ['openai-chat', { type: 'object', properties: {}, anyOf: [{ type: 'object' }] }],
    ['openai-chat', closed({ a: { type: 'array' } })],
    ['openai-chat', closed({ a: { allOf: [{ type: 'string' }] } })],
    ['openai-strict', closed({ a: { type: 'string' } }, [])],
    ['openai-strict', closed({ a: { type: 'object', properties: {}, required: [] } })],
    ['openai-strict', closed({ a: { type: 'string', format: 'uri' } })],
    ['gemini', { type: 'OBJECT', properties: { n: { type: 'INTEGER', exclusiveMinimum: 0 } } }],
    ['gemini', { type: 'OBJECT', properties: { n: { type: 'INTEGER', enum: [1] } } }],
    ['gemini', { type: 'OBJECT', properties: { n: { type: 'OBJECT', properties: {} } } }],
    ['gemini', { type: 'OBJECT', properties: { n: { type: 'STRING', format: 'uri' } } }],
    ['gemini', { type: 'OBJECT', properties: { n: { type: 'STRING' } }, required: ['m'] }],
    ['gemini', { type: 'OBJECT', properties: { n: { type: 'STRING' } }, $schema: 'x' }],
    ['gemini', { type: 'OBJECT', properties: { n: { description: 'd', anyOf: [{ type: 'STRING' }] } } }],
    ['mcp', { anyOf: [] }],
  ];
  for (const [subset, schema] of refused) expect([subset, schema, refusals(subset, schema as JsonObject).length > 0]).toEqual([subset, schema, true]);
});
