/**
 * Every member that the published schema admits, and every word that a member may be, stands in a contract that compiles. A member that no
 * contract of ours says is one of which nobody knows whether it still means anything.
 */
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import { isSchemaObject } from '../../src/contract/schema-subset.js';
import { readCanonicalSource } from '../../src/contract/source.js';
import type { Json, JsonObject } from '../../src/model.js';
import { projectFile } from '../../src/project.js';
import { checkoutFolder } from '../support/checkout.js';
import { catalogueOf, folderWith, retailFolder } from './fixture.js';
import { warehouseFolder } from './warehouse.js';

const published = JSON.parse(readFileSync(projectFile('schemas', 'contract.schema.json'), 'utf8')) as JsonObject;

test('the published schema is valid by the meta-schema, which nothing checks when it is used', () => {
  expect(new Ajv2020().validateSchema(published)).toBe(true);
});

/** What no other contract of ours needs. */
const others = `
callgate: 1
service: notes
upstream:
  base_url: http://127.0.0.1:9
  callbacks: { secret_from: env:NOTES_SECRET, tolerance: 1m }
  error_body: { type: object, properties: { code: { enum: [TAKEN, GONE, BUSY] } }, required: [code] }
entities:
  note: { id: args.note_id, observe: { tool: read_note, args: { note_id: args.note_id }, max_age: 5s } }
tools:
  read_note:
    version: 1.0.0
    effect: none
    purpose: Read a note.
    untrusted: true
    durability: relaxed
    coerce: lossless
    examples: [{ args: { note_id: 1 }, why: The first one. }]
    counterexamples: [{ args: { note_id: 0 }, why: Notes begin at one. }]
    args: { type: object, properties: { note_id: { type: integer, minimum: 1 } }, required: [note_id] }
    result: { type: object, properties: { text: { type: string }, version: { type: integer } }, required: [text, version] }
    http: { method: GET, path: "/notes/{args.note_id}" }
    redact: [/text]
    public: [reason]
    error_body: { type: object, properties: { reason: { type: string } } }
    errors:
      - { when: status == 410, outcome: rejected, class: not_found, next: abandon, message: The note is gone. }
      - { when: status == 429, outcome: not_committed, class: rate_limited, next: wait }
      - { when: status == 423, outcome: rejected, next: verify }
  find_notes:
    version: 1.0.0
    effect: none
    durability: strict
    coerce: none
    purpose: Find notes by the key of the request that made them.
    args: { type: object, properties: { key: { type: string, maxLength: 40 } }, required: [key] }
    result: { type: object, properties: { done: { type: array, maxItems: 5, items: { type: string } } }, required: [done] }
    http: { method: GET, path: /notes, query: { key: "{args.key}" } }
  change_note:
    version: 1.0.0
    effect: write
    entity: note
    purpose: Change a note.
    expect: seen
    args: { type: object, properties: { note_id: { type: integer, minimum: 1 }, parts: { type: array, maxItems: 5, items: { type: string, maxLength: 9 } } }, required: [note_id, parts] }
    observe:
      first: { tool: read_note, args: { note_id: "1" }, version: string(status), max_age: 5s }
      each: { for_each: { in: args.parts, as: part, max: 3 }, tool: find_notes, args: { key: part }, max_age: 5s }
    preconditions:
      - { id: a, check: first.version != "", otherwise: { code: A, next: continue } }
      - { id: b, check: size(each) > 0, otherwise: { code: B, next: refresh } }
      - { id: c, check: note.version > 0, otherwise: { code: C, next: wait } }
      - { id: d, check: note.version > 1, otherwise: { code: D, next: verify } }
      - { id: e, check: note.version > 2, otherwise: { code: E, next: retry } }
      - { id: f, check: note.version > 3, otherwise: { code: F, next: abandon } }
    identity: { scope: session, window: 1h }
    http: { method: PATCH, path: "/notes/{args.note_id}", headers: { Idempotency-Key: "{operation.id}" }, body: { parts: args.parts } }
    idempotency: { honoured: true, window: 24h }
    effects: { changes: [note.text], never: [] }
    partial: { items: args.parts, key: item, failed: "!result.done.exists(one, one == item)", unknown: "false", retry: size(item) < 4 }
    errors:
      - { when: status == 409 && body.code == "TAKEN", outcome: committed, next: continue }
      - { when: status == 409 && body.code == "BUSY", outcome: accepted, next: wait }
    readback: { tool: find_notes, args: { key: operation.id }, committed: size(result.done) > 0, absent: size(result.done) == 0, result: result, settle_after: 1s }
    on_unknown: reconcile
    async:
      accepted: status == 202 && body.state == "QUEUED"
      body: { type: object, properties: { state: { enum: [QUEUED, DONE] } }, required: [state] }
      poll: readback
      deadline: 1h
      callback:
        operation: body.key
        committed: body.type == "done"
        rejected:
${['continue', 'ask', 'refresh', 'repair', 'wait', 'verify', 'retry', 'abandon'].map((next) => `          - { when: body.type == "${next}", next: ${next} }`).join('\n')}
    result: { type: object, properties: { done: { type: array, maxItems: 5, items: { type: string } } }, required: [done] }
  drop_note:
    version: 1.0.0
    effect: irreversible
    entity: note
    purpose: Drop a note.
    args: { type: object, properties: { note_id: { type: integer, minimum: 1 } }, required: [note_id] }
    identity: { scope: tenant }
    http: { method: DELETE, path: "/notes/{args.note_id}" }
    effects: { changes: [note.text], never: [] }
    on_unknown: review
    approval: [{ when: "true", by: client }]
    result: { type: object }
`;

const folders = [retailFolder, projectFile('examples', 'tau-retail', 'contracts', 'tau2'), projectFile('test', 'gate', 'till'), warehouseFolder(), checkoutFolder(), folderWith(others).dir];

function definition(schema: Json | undefined): JsonObject {
  if (!isSchemaObject(schema)) return {};
  const { $ref: ref } = schema;
  return typeof ref === 'string' ? definition(ref.slice(2).split('/').reduce<Json | undefined>((node, name) => (node as JsonObject)[name], published)) : schema;
}

function alternatives(schema: Json | undefined): JsonObject[] {
  const own = definition(schema);
  return [own, ...['oneOf', 'anyOf', 'allOf'].flatMap((keyword) => ((own[keyword] ?? []) as Json[]).flatMap(alternatives))];
}

/** `tools.*.errors[].next` for a member, `tools.*.errors[].next=retry` for a word that it may be. Of a document those that it says. */
function said(schema: Json | undefined, path: string, document: Json | undefined, all: boolean): string[] {
  return alternatives(schema).flatMap((own) => {
    const { properties, items, additionalProperties: others, enum: words } = own;
    const named = isSchemaObject(properties) ? properties : {};
    const given = isSchemaObject(document) ? document : {};
    const members = Object.keys(named).filter((name) => all || Object.hasOwn(given, name)).flatMap((name) => [`${path}.${name}`, ...said(named[name], `${path}.${name}`, given[name], all)]);
    const elements = items === undefined ? [] : (all ? [undefined] : Array.isArray(document) ? document : []).flatMap((element) => said(items, `${path}[]`, element, all));
    const rest = !isSchemaObject(others) ? [] : (all ? [undefined] : Object.keys(given).filter((name) => !Object.hasOwn(named, name)).map((name) => given[name])).flatMap((member) => said(others, `${path}.*`, member, all));
    const spoken = Array.isArray(words) ? words.filter((word) => all || word === document).map((word) => `${path}=${String(word)}`) : [];
    return [...members, ...elements, ...rest, ...spoken];
  });
}

test('every member of the language, and every word of it, stands in a contract that compiles', () => {
  const documents = folders.flatMap((folder) => readCanonicalSource(catalogueOf(compileFolder(folder, {})).source).files.map(({ document }) => document));
  const found = new Set(documents.flatMap((document) => said(published, '', document, false)));
  expect([...new Set(said(published, '', undefined, true))].filter((one) => !found.has(one))).toEqual([]);
});

test('what a contract of these says reaches the plan', () => {
  const { tools } = catalogueOf(compileFolder(folderWith(others).dir, {}));
  const [read, change, drop] = ['read_note', 'change_note', 'drop_note'].map((name) => tools.get(name)!) as [ToolPlan, ToolPlan, ToolPlan];
  expect(read.checkArguments({ note_id: '7' })).toEqual({ ok: true, args: { note_id: 7 }, repaired: ['/note_id'] });
  expect(tools.get('find_notes')!.checkArguments({ key: 7 })).toMatchObject({ ok: false });
  expect(read).toMatchObject({ untrusted: true, durability: 'relaxed', redact: ['/text'], public: ['reason'], counterexamples: [{ why: 'Notes begin at one.' }], examples: [{ why: 'The first one.' }] });
  expect(read.errors).toMatchObject([{ class: 'not_found', message: 'The note is gone.' }, { class: 'rate_limited', outcome: 'not_committed' }, { next: 'verify' }]);
  expect(change).toMatchObject({ expect: 'seen', identity: { scope: 'session', windowMs: 3_600_000 }, idempotency: { windowMs: 86_400_000 }, async: { deadlineMs: 3_600_000 } });
  expect(change.observations.map(({ name, each, version }) => [name, each?.max ?? null, version !== null])).toEqual([['each', 3, false], ['first', null, true]]);
  expect(change.errors.map(({ outcome, next }) => `${outcome} ${next}`)).toEqual(['committed continue', 'accepted wait']);
  expect(change.async!.callback!.rejected).toHaveLength(8);
  expect(change.upstream.callbacks!.toleranceMs).toBe(60_000);
  expect(drop).toMatchObject({ identity: { scope: 'tenant' }, approvals: [{ by: 'client' }], readback: null });
});

/** An editor shows it where the member is completed, and where one points at it. */
test('every member says what it is', () => {
  const silent: string[] = [];
  const walk = (schema: Json | undefined, path: string): void => {
    if (Array.isArray(schema)) for (const each of schema) walk(each, path);
    if (!isSchemaObject(schema)) return;
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword !== 'properties' || !isSchemaObject(value)) walk(keyword === 'then' || keyword === 'else' || keyword === 'if' ? undefined : value, path);
      else for (const [name, member] of Object.entries(value)) {
        if (![member, definition(member)].some((one) => isSchemaObject(one) && typeof one['description'] === 'string')) silent.push(`${path}.${name}`);
        walk(member, `${path}.${name}`);
      }
    }
  };
  walk(published, '');
  expect(silent).toEqual([]);
});
