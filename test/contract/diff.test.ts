/**
 * A change of contracts is what callers, approvers and auditors have to be told of. If a changed effect, precondition or retry rule
 * could hide under an unchanged version, every receipt that names the version would say something else than what was decided.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { canonicalText } from '../../src/canonical.js';
import { comparisonProblems, diffSources } from '../../src/contract/diff/diff.js';
import { formatDiff } from '../../src/contract/diff/report.js';
import { loadFolder } from '../../src/contract/load.js';
import { valueAt } from '../../src/contract/pointer.js';
import { canonicalSource, type ContractSource, readCanonicalSource } from '../../src/contract/source.js';
import type { Json, JsonObject } from '../../src/model.js';
import { retailFolder, retailText } from './fixture.js';

const retail = loadFolder(retailFolder).source;

function sourceOf(document: Json, policies = retail.policies): ContractSource {
  return readCanonicalSource(canonicalText({ callgate: 1, files: [{ file: 'retail.yaml', document }], policies: policies.map((policy) => ({ ...policy })) }));
}

const parsed = parse(retailText) as JsonObject;
const retailDocument = (): JsonObject => structuredClone(parsed);

/** The retail contracts with the value at a path replaced, or removed. */
function changed(path: (string | number)[], value: Json | undefined, document = retailDocument()): JsonObject {
  const parent = valueAt(document, path.slice(0, -1)) as Record<string | number, Json>;
  if (value === undefined && Array.isArray(parent)) parent.splice(Number(path.at(-1)), 1);
  else if (value === undefined) delete parent[path.at(-1)!];
  else parent[path.at(-1)!] = value;
  return document;
}

const credit = (...path: (string | number)[]): (string | number)[] => ['tools', 'issue_credit', ...path];

describe('a change under an unchanged version is refused, and told with its field and both values', () => {
  const governed: [what: string, path: (string | number)[], value: Json | undefined, field: string][] = [
    ['an effect', credit('effect'), 'write', 'effect'],
    ['a precondition', credit('preconditions', 0, 'check'), 'args.amount < order.refundable', 'preconditions.within_balance.check'],
    ['a precondition that is gone', credit('preconditions'), [], 'preconditions.within_balance'],
    ['the outcome of an error', credit('errors', 0, 'outcome'), 'unknown', 'errors.status == 412.outcome'],
    ['what may follow an error', credit('errors', 1, 'next'), 'ask', 'errors.status == 422 && body.code == "LIMIT".next'],
    ['a retry rule', credit('retry', 'attempts'), 5, 'retry.attempts'],
    ['what makes two calls the same', credit('identity', 'arguments'), ['order_id'], 'identity.arguments'],
    ['a read-back', credit('readback', 'absent'), 'result.count != 1', 'readback.absent'],
    ['a settle window', credit('readback', 'settle_after'), '1s', 'readback.settle_after'],
    ['authority', credit('authority'), [], 'authority'],
    ['an approval limit', credit('approval', 0, 'when'), 'args.amount > 20000', 'approval.0.when'],
    ['the request', credit('http', 'body', 'amount'), '1', 'http.body.amount'],
    ['a legal state', ['entities', 'order', 'transitions', 'PENDING', 'issue_credit'], 'PENDING', 'entities.order.transitions.PENDING'],
    ['the freshness of what it acts on', ['entities', 'order', 'observe', 'max_age'], '1h', 'entities.order.observe.max_age'],
  ];
  test.each(governed)('%s', (_, path, value, field) => {
    const [old, now] = [sourceOf(retailDocument()), sourceOf(changed(path, value))];
    const found = diffSources(old, now);
    const tool = found.tools.find((one) => one.tool === 'issue_credit')!;
    const difference = tool.fields.find((one) => one.field === field)!;
    expect(found.refused && tool.refused).toBe(true);
    expect([tool.impact, tool.must_move, tool.publish_as]).toEqual(
      field === 'effect' ? ['breaking', 'major', '4.0.0'] : ['behavioural', 'minor', '3.2.0'],
    );
    const written = formatDiff(found);
    expect(written).toContain('REFUSED');
    expect(written).toContain(field);
    for (const side of [difference.old, difference.now]) if (side !== undefined) expect(written).toContain(canonicalText(side));
  });

  test('and published as the version that the report names, it passes', () => {
    const document = changed(credit('retry', 'attempts'), 5);
    for (const [version, refused] of [['3.1.1', true], ['3.2.0', false], ['4.0.0', false], ['2.9.0', true], ['3.1.0-rc.1', true]] as const)
      expect(diffSources(retail, sourceOf(changed(credit('version'), version, document))).refused, version).toBe(refused);
  });
});

describe('who called rightly before is told when that ends', () => {
  const schema = (use: 'args' | 'result', ...path: (string | number)[]) => credit(use, ...path);
  const cases: [what: string, path: (string | number)[], value: Json | undefined, impact: string][] = [
    ['a lower maximum of an argument', schema('args', 'properties', 'amount', 'maximum'), 40000, 'breaking'],
    ['a higher maximum of an argument', schema('args', 'properties', 'amount', 'maximum'), 60000, 'compatible'],
    ['an argument that becomes required', ['tools', 'quote_credit', 'args', 'required'], ['order_id', 'amount', 'order_id2'], 'breaking'],
    ['an argument that may be left out', schema('args', 'required'), ['order_id', 'amount'], 'compatible'],
    ['an optional argument more', schema('args', 'properties', 'note'), { type: 'string' }, 'compatible'],
    ['an argument less', schema('args', 'properties', 'currency'), undefined, 'breaking'],
    ['another pattern', schema('args', 'properties', 'order_id', 'pattern'), '^P-[0-9]+$', 'breaking'],
    ['an enum with a value more', schema('args', 'properties', 'currency', 'enum'), ['GBP', 'EUR'], 'compatible'],
    ['another description of an argument', schema('args', 'properties', 'amount', 'description'), 'Pence.', 'compatible'],
    ['a member more in the result', schema('result', 'properties', 'note'), { type: 'string' }, 'compatible'],
    ['a member less in the result', schema('result', 'properties', 'amount'), undefined, 'breaking'],
    ['a result member that may be missing', schema('result', 'required'), ['receipt_id'], 'breaking'],
    ['a status that callers do not know', ['tools', 'get_order', 'result', 'properties', 'status', 'enum'], ['PENDING', 'DELIVERED', 'CANCELLED', 'LOST'], 'breaking'],
    ['a status that no longer comes', ['tools', 'get_order', 'result', 'properties', 'status', 'enum'], ['PENDING', 'DELIVERED'], 'compatible'],
    ['the purpose', credit('purpose'), 'Credit.', 'compatible'],
    ['a default that is written out', credit('coerce'), 'none', 'compatible'],
    ['an empty list that is written out', ['tools', 'cancel_order', 'preconditions'], [], 'compatible'],
    ['that the state must have been seen', credit('expect'), 'seen', 'breaking'],
  ];
  test.each(cases)('%s', (_, path, value, impact) => {
    expect(diffSources(retail, sourceOf(changed(path, value))).impact).toBe(impact);
  });

  test('tools that come and go are told, without a version that could move', () => {
    const found = diffSources(retail, sourceOf(changed(['tools', 'convert_temperature'], undefined)));
    expect(found.tools).toMatchObject([{ tool: 'convert_temperature', change: 'removed', impact: 'breaking', refused: false }]);
    expect(diffSources(sourceOf(changed(['tools', 'convert_temperature'], undefined)), retail)).toMatchObject({ impact: 'compatible', refused: false });
  });

  test('policies and addresses are told, and concern no version', () => {
    const [policy] = retail.policies;
    const found = diffSources(retail, sourceOf(changed(['upstream', 'base_url'], 'http://other'), [{ ...policy!, text: 'permit (principal, action, resource);' }]));
    expect(found).toMatchObject({ impact: 'behavioural', refused: false, tools: [], services: [{ name: 'retail' }], policies: [{ name: policy!.file }] });
  });
});

/** Every place of a document at which something can be changed. */
function places(value: Json, path: (string | number)[] = []): (string | number)[][] {
  const below = typeof value === 'object' && value !== null ? Object.entries(value).flatMap(([name, item]) => places(item, [...path, Array.isArray(value) ? Number(name) : name])) : [];
  return path.length === 0 ? below : [path, ...below];
}

const mutations = fc.array(
  fc.record({
    at: fc.nat(),
    value: fc.oneof({ arbitrary: fc.constant(undefined), weight: 1 }, fc.constantFrom<Json>('x', 7, true, '3s', [], {}, 'GET', 'none', 'ask', 'rejected', ['a'])),
  }),
  { minLength: 1, maxLength: 3 },
);

/** The retail contracts with something replaced or removed, still well-formed. */
function mutated(changes: { at: number; value: Json | undefined }[]): JsonObject {
  return changes.reduce((document, { at, value }) => {
    const all = places(document).filter(([section]) => section !== 'callgate');
    const attempt = changed(all[at % all.length]!, value, structuredClone(document));
    return comparisonProblems(sourceOf(attempt)).length === 0 ? attempt : document;
  }, retailDocument());
}

describe('over mutated contracts', () => {
  test('a contract against itself is empty', () => {
    fc.assert(
      fc.property(mutations, (changes) => {
        expect(diffSources(sourceOf(mutated(changes)), sourceOf(mutated(changes)))).toEqual({ impact: null, refused: false, tools: [], services: [], policies: [] });
      }),
      { numRuns: 40 },
    );
  });

  test('whatever is changed is reported', () => {
    let seen = 0;
    fc.assert(
      fc.property(mutations, (changes) => {
        const document = mutated(changes);
        if (canonicalText(document) === canonicalText(retailDocument())) return;
        seen++;
        expect(diffSources(retail, sourceOf(document)).impact).not.toBeNull();
      }),
      { numRuns: 250 },
    );
    expect(seen).toBeGreaterThan(100);
  });

  test('seen from the other side it is the same change, with old and new exchanged', () => {
    const sides = (old: ContractSource, now: ContractSource, swap: boolean) =>
      diffSources(old, now).tools.map(({ tool, change, fields }) => [
        tool,
        swap ? { added: 'removed', removed: 'added', changed: 'changed' }[change] : change,
        fields.map(({ field, schema, ...values }) => [
          field,
          swap ? values.now : values.old,
          swap ? values.old : values.now,
          swap && schema === 'wider' ? 'narrower' : swap && schema === 'narrower' ? 'wider' : schema,
        ]),
      ]);
    fc.assert(
      fc.property(mutations, mutations, (a, b) => {
        const [old, now] = [sourceOf(mutated(a)), sourceOf(mutated(b))];
        expect(sides(now, old, true)).toEqual(sides(old, now, false));
      }),
      { numRuns: 60 },
    );
  });
});

test('a catalogue that was stored compares like the folder that it came from', () => {
  expect(diffSources(readCanonicalSource(canonicalSource(retail)), retail).impact).toBeNull();
});
