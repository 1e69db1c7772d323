/** Real documents, as their services publish them: every operation becomes a draft, and every answered draft compiles. */
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { compileFolder } from '../../src/contract/compile.js';
import { gapsIn } from '../../src/contract/gaps.js';
import { importOpenapi } from '../../src/contract/importers/openapi/import.js';
import { dialects, rules } from '../../src/contract/views/dialects.js';
import { projectSchema } from '../../src/contract/views/project-schema.js';
import type { Json, JsonObject } from '../../src/model.js';
import { refusals } from './views/provider-subsets.js';

const folder = fileURLToPath(new URL('../../../shared/data/openapi/', import.meta.url));
/**
 * `circles`: definitions that hold themselves; `examples`: requests and answers that the document shows, which have to fit the draft's schemas;
 * `undeclared`: what it shows and does not describe, which a closed schema refuses (and the value of a patch, of which the answers below make text).
 */
const documents = [
  { file: 'adyen_TransferService-v4.json', operations: 12, keyed: 5, circles: 0, examples: 28, undeclared: [], tag: 'Transfers', path: '/transfers/{id}', id: 'post-transfers' },
  { file: 'modern-treasury.yaml', operations: 181, keyed: 39, circles: 22, examples: 0, undeclared: [], tag: 'PaymentOrder', path: '/api/payment_orders/{id}', id: 'createPaymentOrder' },
  { file: 'paypal_checkout_orders_v2.json', operations: 8, keyed: 3, circles: 0, examples: 4, undeclared: [...Array(2).fill('unknown_argument /payment_source/paypal/experience_context/payment_method_selected'), 'type /body/0/value'], tag: 'trackers', path: '/v2/checkout/orders/{id}', id: 'orders.capture' },
];
const guardMs = 10_000;

/** Answers of the least effort: what a schema leaves open is text, what settles nothing is settled by a person. */
function answered(document: JsonObject): JsonObject {
  const answer = (value: Json): Json => {
    if (typeof value === 'string') return value.startsWith('GAP: ') ? { type: 'string' } : value;
    if (Array.isArray(value)) return value.map(answer);
    return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, answer(member)])) : value;
  };
  const tools = Object.entries(document['tools'] as Record<string, JsonObject>).map(([name, source]): [string, JsonObject] => {
    const { args, result, http, entity: _, authority: _a, preconditions: _p, identity: _i, readback: _r, errors: _e, async: _s, effect, ...rest } = source;
    const kept = { ...rest, args: answer(args!), result: answer(result!), http: sendable(http as JsonObject) };
    if (effect === 'none') return [name, { ...kept, effect }];
    const idempotency = rest['idempotency'] === undefined ? {} : { idempotency: { honoured: true, window: '24h' } };
    return [name, { ...kept, ...idempotency, effect: 'write', effects: { creates: 'x', never: [] }, on_unknown: 'review' }];
  });
  return { ...document, upstream: { base_url: 'https://service.test' }, tools: Object.fromEntries(tools) };
}

function sendable(http: JsonObject): JsonObject {
  const { body, query = {}, headers = {}, ...rest } = http;
  const plain = (members: Json): JsonObject => Object.fromEntries(Object.entries(members as JsonObject).filter(([, value]) => !String(value).startsWith('GAP: ')));
  return { ...rest, query: plain(query), headers: plain(headers), ...(body === undefined || typeof body === 'string' && body.startsWith('GAP: ') ? {} : { body }) };
}

function compiled(document: JsonObject) {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-import-'));
  writeFileSync(join(dir, 'draft.json'), JSON.stringify(document));
  return compileFolder(dir, {});
}

/** For required arguments from the path, which an example of a body does not have. */
function placeholders({ required, properties }: JsonObject): JsonObject {
  return Object.fromEntries(((required ?? []) as string[]).filter((name) => ((properties as JsonObject)[name] as JsonObject)['type'] === 'string').map((name) => [name, 'X1']));
}

interface Declared { id: string; path: string; method: string; tags: string[]; keys: string[]; request: JsonObject; answers: JsonObject[] }

/** The operations in the order of the document, read without any of the importer. */
function declared(document: JsonObject): Declared[] {
  const follow = (value: Json | undefined): JsonObject => {
    const { $ref: ref } = (value ?? {}) as JsonObject;
    return typeof ref === 'string' ? follow(ref.slice(2).split('/').reduce<Json | undefined>((node, name) => (node as JsonObject)[name], document)) : ((value ?? {}) as JsonObject);
  };
  const shown = (holder: Json | undefined): JsonObject => {
    const { example, examples } = ((follow(holder)['content'] ?? {}) as JsonObject)['application/json'] as JsonObject ?? {};
    const each = Object.values((examples ?? {}) as JsonObject).map((one) => follow(one)['value'] ?? null);
    return { all: example === undefined ? each : [example, ...each] };
  };
  return Object.entries(document['paths'] as Record<string, JsonObject>).flatMap(([path, item]) =>
    ['get', 'post', 'put', 'patch', 'delete'].filter((method) => Object.hasOwn(item, method)).map((method) => {
      const operation = item[method] as JsonObject;
      const parameters = [...((item['parameters'] ?? []) as Json[]), ...((operation['parameters'] ?? []) as Json[])].map(follow);
      const keys = parameters.map(({ name }) => String(name)).filter((name) => /^(idempotency-key|paypal-request-id)$/i.test(name));
      const answers = Object.entries((operation['responses'] ?? {}) as JsonObject).filter(([status]) => status.startsWith('2')).map(([, answer]) => shown(answer));
      return { id: String(operation['operationId']), path, method, tags: (operation['tags'] ?? []) as string[], keys, request: shown(operation['requestBody']), answers };
    }));
}

function holdingThemselves(schema: JsonObject): string[] {
  const definitions = (schema['$defs'] ?? {}) as JsonObject;
  const named = (value: Json | undefined): string[] => [...JSON.stringify(value ?? null).matchAll(/"#\/\$defs\/([^"]+)"/g)].map(([, name]) => name as string);
  return Object.keys(definitions).filter((start) => {
    const reached = new Set<string>();
    for (let open = named(definitions[start]); open.length > 0; open = open.flatMap((name) => named(definitions[name])).filter((name) => !reached.has(name))) for (const name of open) reached.add(name);
    return reached.has(start);
  });
}

if (!existsSync(folder)) {
  test(`NOT CHECKED: no documents at ${folder}; nothing was imported of adyen_TransferService-v4.json, modern-treasury.yaml and paypal_checkout_orders_v2.json`, () => {
    expect(existsSync(folder)).toBe(false);
  });
} else {
  describe.each(documents)('$file', ({ file, operations, keyed, circles, examples, undeclared, tag, path, id }) => {
    const text = readFileSync(join(folder, file), 'utf8');
    const there = declared(parse(text, { maxAliasCount: -1 }) as JsonObject);
    const drafted = (options: object): { draft: string; tools: string[] } => {
      const result = importOpenapi(text, { file, ...options });
      if (!('draft' in result)) throw new Error(JSON.stringify(result).slice(0, 500));
      return result;
    };
    const whole = drafted({ operation: ['*'] });
    const tools = (parse(whole.draft) as { tools: Record<string, JsonObject> }).tools;

    test('a tag, a path and an id choose what the document has there, under the names of every other import', () => {
      expect(there).toHaveLength(operations);
      const named = (chosen: (operation: Declared) => boolean): string[] => whole.tools.filter((_, index) => chosen(there[index]!));
      expect(drafted({ tag: [tag] }).tools).toEqual(named(({ tags }) => tags.includes(tag)));
      expect(drafted({ path: [path] }).tools).toEqual(named((one) => one.path === path));
      expect(drafted({ operation: [id] }).tools).toEqual(named((one) => one.id === id));
      expect(drafted({ select: [tag, path, id] }).tools).toEqual(named((one) => one.tags.includes(tag) || one.path === path || one.id === id));
      for (const { length } of [named(({ tags }) => tags.includes(tag)), named((one) => one.path === path), named((one) => one.id === id)]) expect(length).toBeGreaterThan(0);
    }, 6 * guardMs);

    test('each key for repeats is ours, and no argument; nothing else is taken for one', () => {
      const carried = whole.tools.map((name, index) => ({ name, keys: there[index]!.method === 'get' ? [] : there[index]!.keys }));
      expect(carried.filter(({ keys }) => keys.length > 0)).toHaveLength(keyed);
      for (const { name, keys } of carried) {
        const { http, args, idempotency } = tools[name] as { http: { headers?: JsonObject }; args: JsonObject; idempotency?: JsonObject };
        expect(Object.entries(http.headers ?? {}).flatMap(([header, value]) => (value === '{operation.id}' ? [header] : [])), name).toEqual(keys);
        expect(Object.keys((args['properties'] ?? {}) as object).join(' '), name).not.toMatch(/idempotency|paypal_request_id/i);
        expect(idempotency?.['honoured'], name).toBe(keys.length > 0 ? true : undefined);
      }
    });

    test('what holds itself still does, and no word is left that only OpenAPI has', () => {
      const schemas = Object.values(tools).flatMap(({ args, result }) => [args, result]).filter((one) => typeof one === 'object') as JsonObject[];
      expect(schemas.flatMap(holdingThemselves)).toHaveLength(circles);
      expect(whole.draft).not.toMatch(/^\s*"?(nullable|discriminator|readOnly|writeOnly|xml|externalDocs|example)"?:/m);
    });

    test('above each question stands what to find out', () => {
      const lines = whole.draft.split('\n');
      const bare = lines.filter((line, index) => {
        if (!/"?GAP: /.test(line)) return false;
        let above = index - 1;
        // One comment for the members of a rule or of a read-back.
        while (/GAP: |^\s*(readback:|- when: .*)$/.test(lines[above] ?? '')) above--;
        return !/^\s*# /.test(lines[above] ?? '');
      });
      expect(bare).toEqual([]);
    });

    test(`all ${operations} operations become drafts within ${guardMs} ms, with questions and nothing else wrong`, () => {
      const began = performance.now();
      const result = importOpenapi(text, { file, operation: ['*'] });
      const took = performance.now() - began;
      if (!('draft' in result)) throw new Error(JSON.stringify(result));
      expect(result.tools).toHaveLength(operations);
      expect(took).toBeLessThan(guardMs);
      const dir = mkdtempSync(join(tmpdir(), 'callgate-import-'));
      writeFileSync(join(dir, 'draft.yaml'), result.draft);
      const checked = compileFolder(dir, {});
      const codes = 'diagnostics' in checked ? checked.diagnostics.filter(({ severity }) => severity === 'error').map(({ code }) => code) : [];
      expect(codes.filter((code) => code === 'CG901')).toHaveLength(result.gaps);
      expect([...new Set(codes)].sort().filter((code) => code !== 'CG009')).toEqual(['CG901']);
      const tools = Object.values((parse(result.draft) as { tools: Record<string, JsonObject> }).tools);
      expect(tools.filter((tool) => tool['idempotency'] !== undefined)).toHaveLength(keyed);
      console.log(`${file}: ${operations} operations, ${result.gaps} questions, ${Math.round(took)} ms, heap ${Math.round(process.memoryUsage().heapUsed / 1e6)} MB`);
    }, 3 * guardMs);

    test('with its questions answered, compiles, and every model view is one that its provider takes', () => {
      const document = answered(parse(whole.draft) as JsonObject);
      expect(gapsIn(document)).toEqual([]);
      const began = performance.now();
      const catalogue = compiled(document);
      console.log(`${file}: compiled in ${Math.round(performance.now() - began)} ms, heap ${Math.round(process.memoryUsage().heapUsed / 1e6)} MB`);
      if ('diagnostics' in catalogue) throw new Error(catalogue.diagnostics.filter(({ severity }) => severity === 'error').slice(0, 20).map(({ code, message }) => `${code} ${message}`).join('\n'));
      expect(catalogue.catalogue.tools.size).toBe(operations);
      let seen = 0;
      const unknown: string[] = [];
      for (const [index, { request, answers }] of there.entries()) {
        const tool = catalogue.catalogue.tools.get(whole.tools[index]!)!;
        for (const example of request['all'] as JsonObject[]) {
          seen++;
          const verdict = tool.checkArguments({ ...placeholders(tool.argsSchema), ...(Array.isArray(example) ? { body: example } : example) });
          if (!verdict.ok) unknown.push(...verdict.errors.map(({ code, pointer }) => `${code} ${pointer}`));
        }
        if (gapsIn(tools[tool.name]!['result']!).some(({ path: at }) => at.length === 0)) continue;
        for (const answer of answers.flatMap(({ all }) => all as Json[])) {
          seen++;
          expect(tool.admitResult(answer), `${tool.name} ${JSON.stringify(answer).slice(0, 200)}`).not.toBeNull();
        }
      }
      expect(unknown).toEqual(undeclared);
      expect(seen).toBe(examples);
      const count = { projected: 0, left: 0 };
      for (const tool of catalogue.catalogue.tools.values()) {
        for (const dialect of dialects) {
          const projected = projectSchema(tool.argsSchema, rules[dialect].subset);
          count[projected.ok ? 'projected' : 'left']++;
          const empty = dialect === 'gemini' && projected.ok && Object.keys(projected.schema['properties'] as object).length === 0;
          if (projected.ok && !empty) expect(refusals(dialect, projected.schema), `${tool.name} for ${dialect}`).toEqual([]);
        }
      }
      expect(count.projected).toBeGreaterThan(0.9 * operations * dialects.length);
      console.log(`${file}: ${count.projected} model views are taken by their providers, ${count.left} tools are left out of one`);
    }, 6 * guardMs);
  });
}
