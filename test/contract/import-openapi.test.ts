/**
 * An import that guessed would put guesses under a digest: what the document does not say has to stand there as a question that
 * fails the check. And what it does say has to arrive: the requests of an answered draft are those that the document describes.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, parseDocument } from 'yaml';
import { compileFolder } from '../../src/contract/compile.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import { type ImportOptions, importOpenapi } from '../../src/contract/importers/openapi/import.js';
import type { Json, JsonObject } from '../../src/model.js';

const shop = `openapi: 3.0.3
info: { title: Shop API, version: "2" }
servers: [{ url: "https://shop.test/v1" }]
components:
  securitySchemes: { key: { type: http, scheme: bearer } }
  parameters:
    Tenant: { name: X-Region, in: header, schema: { type: string, enum: [eu, us] } }
  schemas:
    Money: { type: object, properties: { value: { type: integer, format: int64, maximum: 9223372036854775807 }, currency: { type: string, maxLength: 3 } }, required: [value, currency] }
    Category: { type: object, properties: { name: { type: string }, parent: { $ref: "#/components/schemas/Category" }, children: { type: array, items: { $ref: "#/components/schemas/Category" } } } }
    Refund:
      type: object
      properties:
        id: { type: string, readOnly: true }
        amount: { $ref: "#/components/schemas/Money" }
        note: { type: string, nullable: true, maxLength: 100, default: none }
        reason: { nullable: true, allOf: [{ $ref: "#/components/schemas/Reason" }] }
        category: { $ref: "#/components/schemas/Category" }
        in: { type: string, maxLength: 10, example: x, x-internal: true }
        secret: { type: string, writeOnly: true }
        target: { oneOf: [{ type: object, properties: { card: { type: string } }, required: [card] }, { type: object, properties: { bank: { type: string } }, required: [bank] }], discriminator: { propertyName: kind } }
      required: [id, amount]
    Reason: { type: string, enum: [late, broken] }
security: [{ key: [] }]
paths:
  /orders/{orderId}/refunds:
    parameters: [{ name: orderId, in: path, required: true, schema: { type: string, maxLength: 20 } }]
    post:
      operationId: orders.refunds.create
      tags: [refunds]
      summary: Refund an order
      description: Pays money back. See <b>rules</b> and [more](https://shop.test).
      parameters:
        - { name: Idempotency-Key, in: header, schema: { type: string, maxLength: 64 } }
        - { name: dry, in: query, schema: { type: boolean } }
        - { name: expand, in: query, schema: { type: array, items: { type: string } } }
        - { $ref: "#/components/parameters/Tenant" }
        - { name: Accept, in: header, schema: { type: string } }
      requestBody: { required: true, content: { application/json: { schema: { $ref: "#/components/schemas/Refund" } } } }
      responses:
        "201": { description: made, content: { application/json: { schema: { $ref: "#/components/schemas/Refund" } } } }
        "202": { description: later }
        "404": { description: gone }
        "409": { description: already refunded }
        "500": { description: oops }
    get:
      operationId: orders.refunds.list
      tags: [refunds, reads]
      summary: List refunds
      parameters: [{ name: key, in: query, schema: { type: string, nullable: true, maxLength: 100 } }]
      responses: { "200": { description: ok, content: { application/json: { schema: { type: object, properties: { count: { type: integer }, refunds: { type: array, items: { $ref: "#/components/schemas/Refund" } } }, required: [count] } } } } }
  /notes:
    put:
      tags: [notes]
      requestBody: { content: { application/json: { schema: { type: object, properties: { idempotency_key: { type: string, maxLength: 45 }, text: { type: string, maxLength: 9 } }, required: [idempotency_key, text] } } } }
      responses: { "204": { description: done } }
`;

function imported(text: string, options: Partial<ImportOptions> = { select: ['*'] }) {
  const result = importOpenapi(text, { file: 'shop.yaml', ...options });
  if (!('draft' in result)) throw new Error(JSON.stringify(result).slice(0, 500));
  return { ...result, document: parse(result.draft) as JsonObject };
}

function check(draft: string) {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-import-'));
  writeFileSync(join(dir, 'shop.yaml'), draft);
  return compileFolder(dir, { SHOP_API_URL: 'https://shop.test/v1', NOTES_URL: 'https://shop.test' });
}

/** The draft with questions answered, by the members that they stand in; null removes one. */
function answered(draft: string, answers: Record<string, Json>): string {
  const document = parseDocument(draft);
  for (const [path, answer] of Object.entries(answers)) {
    if (answer === null) document.deleteIn(path.split('/'));
    else document.setIn(path.split('/'), document.createNode(answer));
  }
  return document.toString();
}

const refund = 'tools/orders_refunds_create';
const answers: Record<string, Json> = {
  [`${refund}/effect`]: 'irreversible',
  [`${refund}/entity`]: null,
  [`${refund}/authority`]: [],
  [`${refund}/preconditions`]: [],
  [`${refund}/identity`]: { scope: 'intent', arguments: ['orderId', 'amount'] },
  [`${refund}/idempotency/window`]: '24h',
  [`${refund}/effects/creates`]: 'one refund',
  [`${refund}/effects/never`]: [],
  [`${refund}/errors/0/outcome`]: 'rejected',
  [`${refund}/errors/0/next`]: 'abandon',
  [`${refund}/readback`]: {
    tool: 'orders_refunds_list',
    args: { orderId: 'args.orderId', key: 'operation.id' },
    committed: 'result.count == 1',
    absent: 'result.count == 0',
    settle_after: '10s',
  },
  [`${refund}/async/deadline`]: '1h',
};

describe('a draft', () => {
  const draft = imported(shop, { tag: ['refunds'] });

  test('fails the check for its open questions alone, each at its line', () => {
    const result = check(draft.draft);
    const found = 'diagnostics' in result ? result.diagnostics : [];
    expect(new Set(found.map(({ code }) => code))).toEqual(new Set(['CG901']));
    expect(found.length).toBe(draft.gaps);
    const lines = draft.draft.split('\n');
    for (const { line, column } of found) expect(lines[line - 1]!.slice(column - 1)).toMatch(/^"?GAP: /);
  });

  test('asks for everything that no document says, and says above each what to find out', () => {
    const create = (draft.document['tools'] as JsonObject)['orders_refunds_create'] as JsonObject;
    const asked = draft.draft.split('\n').filter((line) => line.includes('GAP: ')).map((line) => line.trim().split(':')[0]);
    for (const member of ['effect', 'entity', 'authority', 'preconditions', 'scope', 'arguments', 'window', 'creates', 'never', 'outcome', 'next', 'tool', 'committed', 'absent', 'settle_after', 'deadline'])
      expect(asked, member).toContain(member);
    expect(draft.draft).toMatch(/# 409: already refunded\n\s*# Has nothing happened/);
    expect(create['not_found']).toBe('status == 404');
    expect(create['errors']).toHaveLength(1);
  });

  test('keeps of the schemas what a contract can hold', () => {
    const create = (draft.document['tools'] as JsonObject)['orders_refunds_create'] as JsonObject;
    const { properties, $defs, required } = create['args'] as { properties: Record<string, JsonObject>; $defs: JsonObject; required: string[] };
    expect(Object.keys(properties)).toEqual(['orderId', 'dry', 'X_Region', 'amount', 'note', 'reason', 'category', 'in_', 'secret', 'target']);
    expect(required).toEqual(['orderId', 'amount']);
    expect(properties['amount']).toEqual({ type: 'object', properties: { value: { type: 'integer' }, currency: { type: 'string', maxLength: 3 } }, required: ['value', 'currency'] });
    expect(properties['note']).toEqual({ type: ['string', 'null'], description: 'The service\'s default: "none".', maxLength: 100 });
    expect(properties['reason']).toEqual({ anyOf: [{ allOf: [{ type: 'string', enum: ['late', 'broken'] }] }, { type: 'null' }] });
    expect(properties['category']).toEqual({ $ref: '#/$defs/Category' });
    expect($defs).toEqual({ Category: { type: 'object', properties: { name: { type: 'string' }, parent: { $ref: '#/$defs/Category' }, children: { type: 'array', items: { $ref: '#/$defs/Category' } } } } });
    expect(properties['in_']).toEqual({ type: 'string', maxLength: 10 });
    expect((create['result'] as { properties: object }).properties).not.toHaveProperty('secret');
    expect(create['purpose']).toBe('Refund an order. Pays money back. See rules and more.');
    expect(draft.document['upstream']).toEqual({ base_url: '${SHOP_API_URL}', auth: { header: 'Authorization', value_from: 'env:SHOP_API_TOKEN', prefix: 'Bearer ' } });
    expect(draft.draft).toContain('# The query parameter expand was left out');
  });

  test('with its questions answered compiles, and its requests are those of the document', () => {
    const result = check(answered(draft.draft, answers));
    if ('diagnostics' in result) throw new Error(result.diagnostics.map(({ line, code, message }) => `${line} ${code} ${message}`).join('\n'));
    const tool = result.catalogue.tools.get('orders_refunds_create') as ToolPlan;
    const args = { orderId: 'O 1', amount: { value: 5, currency: 'EUR' }, note: null, category: { name: 'a', children: [{ name: 'b', children: [] }] }, target: { card: 'c' } };
    expect(tool.checkArguments(args)).toMatchObject({ ok: true });
    expect(tool.render({ args, operation: { id: 'op_1' } })).toEqual({
      method: 'POST',
      url: 'https://shop.test/v1/orders/O%201/refunds',
      headers: { accept: 'application/json', 'content-type': 'application/json', 'idempotency-key': 'op_1' },
      body: '{"amount":{"currency":"EUR","value":5},"category":{"children":[{"children":[],"name":"b"}],"name":"a"},"note":null,"target":{"card":"c"}}',
    });
    const more = { orderId: '1', dry: true, X_Region: 'eu', amount: { value: 5, currency: 'EUR' }, in_: 'x', reason: 'late' };
    expect(tool.render({ args: more, operation: { id: 'op_1' } })).toMatchObject({
      url: 'https://shop.test/v1/orders/1/refunds?dry=true',
      headers: { 'x-region': 'eu' },
      body: '{"amount":{"currency":"EUR","value":5},"in":"x","reason":"late"}',
    });
    for (const wrong of [{ ...args, id: 'x' }, { ...args, target: { card: 'c', bank: 'b' } }, { ...args, category: { nam: 'a' } }, { ...args, reason: 'no' }])
      expect(tool.checkArguments(wrong).ok, JSON.stringify(wrong)).toBe(false);
    expect(tool.idempotency).toEqual({ windowMs: 86_400_000 });
  });

  test('sends the key in the body where the document has it there', () => {
    const { document } = imported(shop, { path: ['/notes'] });
    expect((document['tools'] as JsonObject)['put_notes']).toMatchObject({
      args: { properties: { text: { type: 'string', maxLength: 9 } }, required: ['text'] },
      http: { method: 'PUT', path: '/notes', body: { idempotency_key: 'operation.id', text: 'args.text' } },
      idempotency: { honoured: true },
      result: { type: 'null' },
    });
  });

  test('asks where our key does not fit', () => {
    const { draft: text } = imported(shop.replace('maxLength: 64', 'format: uuid'), { tag: ['refunds'] });
    expect(text).toMatch(/# The key of the operation goes here, and the key has to be a UUID.*\n\s*Idempotency-Key: "GAP: /);
  });
});

describe('a choice', () => {
  test('is needed: everything at once is refused, with what there is to choose from', () => {
    expect(importOpenapi(shop, { file: 'shop.yaml' })).toMatchObject({ unchosen: expect.stringMatching(/nothing was chosen/) as string, operations: { length: 3 } });
  });

  test.each<[Partial<ImportOptions>, string[]]>([
    [{ tag: ['reads'] }, ['orders_refunds_list']],
    [{ operation: ['orders.refunds.*'] }, ['orders_refunds_list', 'orders_refunds_create']],
    [{ operation: ['put_notes'] }, ['put_notes']],
    [{ path: ['/orders/*'], tag: ['reads'] }, ['orders_refunds_list']],
    [{ select: ['notes', 'orders.refunds.lis?'] }, ['orders_refunds_list', 'put_notes']],
  ])('%j', (selection, tools) => {
    expect(imported(shop, selection).tools).toEqual(tools);
  });

  test('of something that is not there is told, with what was meant', () => {
    expect(importOpenapi(shop, { file: 'x', operation: ['orders.refunds.creat'] })).toMatchObject({ unchosen: expect.stringMatching(/orders\.refunds\.create/) as string });
    expect(importOpenapi(shop, { file: 'x', tag: ['reads'], path: ['/notes'] })).toMatchObject({ unchosen: expect.stringMatching(/all of/) as string });
  });

  test('does not change the names, which are unique, at most 64 characters and the same every time', () => {
    const paths = Object.fromEntries(
      ['a.b', 'a-b', 'a_b', 'a b', 'x'.repeat(80), `${'x'.repeat(79)}y`, '1st', '…', 'a.b'].map((operationId, index) => [`/p${index}`, { get: { operationId, responses: {} } }]),
    );
    const text = JSON.stringify({ openapi: '3.1.0', paths });
    const all = imported(text).tools;
    expect(new Set(all).size).toBe(9);
    for (const [index, name] of all.entries()) {
      expect(name).toMatch(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/);
      expect(imported(text, { path: [`/p${index}`] }).tools).toEqual([name]);
    }
    expect(imported(text).draft).toBe(imported(text).draft);
  });

  test('of an operation that comes later does not change a name that the document itself has', () => {
    const paths = (...ids: string[]): string => JSON.stringify({ openapi: '3.1.0', paths: Object.fromEntries(ids.map((operationId, index) => [`/p${index}`, { get: { operationId, responses: {} } }])) });
    expect(imported(paths('list_orders')).tools).toEqual(['list_orders']);
    const [first, second] = imported(paths('list_orders', 'list.orders')).tools;
    expect(first).toBe('list_orders');
    expect(second).toMatch(/^list_orders_[0-9a-f]{10}$/);
  });
});

describe('what cannot be read is told with its place', () => {
  test.each([
    ['{"openapi": "3.0.0",\n "paths": {,}}', 2, 12, /found ","/],
    ['openapi: 3.0.0\npaths:\n  /a: [\n', 4, 1, /./],
    ['openapi: 3.0.0\npaths: {}\ninfo: {}\npaths: {}\n', 4, 1, /`paths` is written twice/],
    ['openapi: 3.0.0\npaths: *gone\n', 2, 8, /gone/],
    ['swagger: "2.0"\npaths: {}\n', 1, 1, /Swagger 2/],
    ['openapi: 2.9\npaths: {}\n', 1, 1, /OpenAPI 3 is needed/],
    ['openapi: 3.1.0\n', 1, 1, /`paths`/],
    ['', 1, 1, /object/],
    ['[]', 1, 1, /object/],
  ])('%j', (text, line, column, message) => {
    expect(importOpenapi(text, { file: 'x', select: ['*'] })).toMatchObject({ problems: [{ line, column, message: expect.stringMatching(message) as string }] });
  });
});
