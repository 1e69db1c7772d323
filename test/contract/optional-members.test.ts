/** What the model left out must be left out of the request: an empty text or a null is another request. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { compileFolder, compileSource } from '../../src/contract/compile.js';
import { catalogueOf } from './fixture.js';

function folder(http: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-optional-'));
  writeFileSync(
    join(dir, 'search.yaml'),
    `callgate: 1
service: search
upstream: { base_url: "http://127.0.0.1:1" }
tools:
  find:
    version: 1.0.0
    effect: none
    purpose: Find.
    args:
      type: object
      properties:
        text: { type: string, maxLength: 9 }
        limit: { type: integer }
        exact: { type: boolean }
        note: { type: [string, "null"], maxLength: 9 }
        filter: { type: object, properties: { a: { type: [string, "null"], maxLength: 9 } } }
      required: [text]
    result: { type: object, properties: {} }
    http: ${http}
`,
  );
  return dir;
}

const http = `{ method: POST, path: /find, query: { q: "{args.text}", "?limit": "{args.limit}" }, headers: { "?X-Exact": "{args.exact}" }, body: { text: args.text, "?note": args.note, inner: { "?limit": args.limit }, "?filter": args.filter } }`;
const compiled = catalogueOf(compileFolder(folder(http), {}));
const sent = (args: object) => {
  const { url, headers, body } = compiled.tools.get('find')!.render({ args: args as never });
  return [url, headers['x-exact'], body];
};

describe('a member whose name begins with `?`', () => {
  test('is left out of query, headers and body when its argument is absent', () => {
    expect(sent({ text: 'a' })).toEqual(['http://127.0.0.1:1/find?q=a', undefined, '{"inner":{},"text":"a"}']);
  });

  test('is sent as it was given otherwise, null included where a null can be written', () => {
    expect(sent({ text: 'a', limit: 0, exact: false, note: null, filter: { a: null } })).toEqual([
      'http://127.0.0.1:1/find?limit=0&q=a',
      'false',
      '{"filter":{"a":null},"inner":{"limit":0},"note":null,"text":"a"}',
    ]);
  });

  test('is the same request from the stored source', () => {
    const again = catalogueOf(compileSource(compiled.source, {}));
    const scope = { args: { text: 'a', limit: 3 } };
    expect(again.tools.get('find')!.render(scope)).toEqual(compiled.tools.get('find')!.render(scope));
  });

  test.each([
    ['query: { "?q": "{args.text}-{args.limit}" }'],
    ['query: { "?q": "a" }'],
    ['query: { "?q": "{1 + 1}" }'],
    ['headers: { "?X-Q": "{operation.id}" }'],
    ['body: { "?q": args.limit + 1 }'],
    ['body: { inner: { "?q": { a: args.text } } }'],
  ])('has to be one argument: %s', (member) => {
    const result = compileFolder(folder(`{ method: POST, path: /find, ${member} }`), {});
    expect('diagnostics' in result ? result.diagnostics.map(({ code }) => code) : []).toContain('CG114');
  });

  test('is checked like any other', () => {
    const result = compileFolder(folder('{ method: POST, path: /find, body: { "?q": args.lmit } }'), {});
    expect('diagnostics' in result ? result.diagnostics.map(({ code }) => code) : []).toContain('CG101');
  });
});
