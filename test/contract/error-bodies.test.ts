/**
 * A rule over an error says what happened to money. Misspelt, it would never match; read from a body that is something else, it could match
 * wrongly. Where the contract says what an error looks like, the first is refused when it compiles and the second makes the outcome unknown.
 */
import { describe, expect, test } from 'vitest';
import { compileFolder, compileSource } from '../../src/contract/compile.js';
import { diffSources } from '../../src/contract/diff/diff.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import { readCanonicalSource } from '../../src/contract/source.js';
import { classify } from '../../src/gate/classify.js';
import type { Json } from '../../src/model.js';
import { catalogueOf, folderWith, mutated, retailText } from './fixture.js';

const errorBody = 'error_body: { type: object, properties: { code: { enum: [LIMIT, NOT_DELIVERED, NOT_OWNER, NOT_STARTED, ALREADY_VOIDED, NOT_PENDING] } }, required: [code] }';
const ofService = retailText.replace('  limits: { concurrency: 64', `  ${errorBody}\n  limits: { concurrency: 64`);
const ofTool = retailText.replace('    errors:\n      - { when: status == 412', `    ${errorBody}\n    errors:\n      - { when: status == 412`);

const compiled = (text: string) => catalogueOf(compileFolder(folderWith(text).dir, {}));
const found = (text: string): string[] => {
  const result = compileFolder(folderWith(text).dir, {});
  return 'diagnostics' in result ? result.diagnostics.map(({ line, code, message }) => `${text.split('\n')[line - 1]?.trim().slice(0, 40)} ${code} ${message}`) : [];
};
const credit = (text: string): ToolPlan => compiled(text).tools.get('issue_credit')!;
const args = { order_id: 'O-417', amount: 2500, currency: 'GBP' };

function outcome(tool: ToolPlan, status: number, json: Json | undefined): string {
  const body = json === undefined ? { unreadable: 'not_json' as const } : { json };
  const verdict = classify(tool, { kind: 'response', sent: true, status, headers: {}, body, ms: 1 }, { unknownBefore: 0, scope: { args, bound: { customer_id: 'C-17' }, operation: { id: 'op_1' } } });
  return 'rule' in verdict && verdict.rule?.code ? `${verdict.outcome} ${verdict.rule.code}` : verdict.outcome;
}

describe.each([['of the service', ofService], ['of the tool', ofTool]])('a declared error body %s', (_, text) => {
  test('admits the rules of the example', () => {
    expect(found(text)).toEqual([]);
  });

  test('refuses a member that it does not have, and a value that it never is', () => {
    expect(found(text.replace('body.code == "LIMIT"', 'body.cod == "LIMIT"'))).toEqual([expect.stringMatching(/^- \{ when: status == 422.* CG101 there is no member `cod` here; did you mean `code`/)]);
    expect(found(text.replace('body.code == "LIMIT"', 'body.code == "LIMITT"'))).toEqual([expect.stringMatching(/CG101 .*did you mean `LIMIT`/)]);
  });

  test('leaves what matches it to the rules, and further members are no hindrance', () => {
    const tool = credit(text);
    expect(outcome(tool, 422, { code: 'LIMIT', hint: 'less', trace: 7 })).toBe('rejected CREDIT_LIMIT');
    expect(outcome(tool, 503, { code: 'NOT_STARTED' })).toBe('not_committed');
    expect(outcome(tool, 412, { any: 'thing' })).toBe('rejected ORDER_CHANGED');
    expect(outcome(tool, 200, { receipt_id: 'rc_1', amount: 2500 })).toBe('committed');
  });

  test.each<[string, Json | undefined]>([
    ['another value', { code: 'OTHER' }], ['another type', { code: 7 }], ['no such member', { error: { code: 'LIMIT' } }], ['a text', 'LIMIT'], ['a list', [{ code: 'LIMIT' }]], ['null', null], ['no JSON', undefined],
  ])('makes the outcome unknown where a rule would read %s', (_what, body) => {
    const tool = credit(text.replace('status == 422 && body.code == "LIMIT"', 'status == 422 && body.code != "NOT_OWNER"'));
    expect(outcome(tool, 422, body)).toBe('unknown');
  });

  test('is kept with the source that an open operation ends under', () => {
    const again = catalogueOf(compileSource(compiled(text).source, {})).tools.get('issue_credit')!;
    expect(outcome(again, 422, { code: 'OTHER' })).toBe('unknown');
    expect(outcome(again, 422, { code: 'LIMIT' })).toBe('rejected CREDIT_LIMIT');
  });

  test('changed, it changes the digest and asks for another version of every tool whose rules read it', () => {
    const [before, after] = [compiled(text), compiled(text.replace('NOT_STARTED, ALREADY_VOIDED', 'NOT_STARTED, TOO_MANY, ALREADY_VOIDED'))];
    expect(after.tools.get('issue_credit')!.digest).not.toBe(before.tools.get('issue_credit')!.digest);
    const { refused, tools } = diffSources(readCanonicalSource(before.source), readCanonicalSource(after.source));
    expect(refused).toBe(true);
    expect(tools.map(({ tool }) => tool)).toEqual(text === ofTool ? ['issue_credit'] : ['cancel_order', 'get_order', 'issue_credit', 'quote_credit', 'void_credit']);
  });
});

describe('without one', () => {
  test('`body` is whatever came, and reading what is not there makes the outcome unknown; `has` asks first', () => {
    const tool = credit(retailText);
    expect(outcome(tool, 422, { code: 'LIMIT' })).toBe('rejected CREDIT_LIMIT');
    for (const body of [{}, undefined, 'LIMIT'] as (Json | undefined)[]) expect(outcome(tool, 422, body), JSON.stringify(body)).toBe('unknown');
    const asking = credit(retailText.replace('body.code == "LIMIT"', 'has(body.code) && body.code == "LIMIT"'));
    expect(outcome(asking, 422, { code: 'LIMIT' })).toBe('rejected CREDIT_LIMIT');
    expect(outcome(asking, 422, {})).toBe('rejected');
    expect(outcome(asking, 422, undefined)).toBe('unknown');
  });
});

describe('async.body', () => {
  const accepting = (accepted: string): string => mutated('      accepted: status == 202\n', `      accepted: '${accepted}'\n      body: { type: object, properties: { state: { enum: [QUEUED, DONE] } } }\n`).text;

  test('types what `accepted` reads', () => {
    expect(found(accepting('status == 202 && body.state == "QUEUED"'))).toEqual([]);
    expect(found(accepting('status == 202 && body.stat == "QUEUED"'))).toEqual([expect.stringMatching(/CG101 there is no member `stat` here/)]);
    expect(outcome(credit(accepting('has(body.state) && body.state == "QUEUED"')), 200, { state: 'QUEUED' })).toBe('accepted');
    expect(outcome(credit(accepting('has(body.state) && body.state == "QUEUED"')), 200, { receipt_id: 'rc_1', amount: 1 })).toBe('committed');
  });
});

test('a schema that is none is reported once, where it stands', () => {
  expect(found(ofService.replace('properties: { code: { enum', 'properties: { code: { enumm'))).toEqual([expect.stringMatching(/^error_body.* CG604/)]);
});
