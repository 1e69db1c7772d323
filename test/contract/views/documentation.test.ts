/** Who approves a tool reads this page and nothing else: what it leaves out or says wrongly is approved unseen. */
import { describe, expect, test } from 'vitest';
import { compileFolder } from '../../../src/contract/compile.js';
import { documentation } from '../../../src/contract/views/documentation.js';
import { unmappedReads, unmappedWrites } from '../../../src/contract/views/unmapped.js';
import type { ToolPlan } from '../../../src/contract/plan.js';
import { problems } from '../../../src/errors.js';
import { classify } from '../../../src/gate/classify.js';
import type { Exchange } from '../../../src/upstream/exchange.js';
import { code, fenced, prose, table } from '../../../src/contract/views/markdown.js';
import { stateDiagram } from '../../../src/contract/views/state-diagram.js';
import { catalogueOf, mutated, retailFolder } from '../fixture.js';
import { voidCreditWithoutReadback } from './without.js';

const catalogue = catalogueOf(compileFolder(retailFolder, {}));
const pages = documentation(catalogue);
const page = pages.get('retail.md')!;

/** Of one tool. */
function section(name: string, text = page): string {
  const start = text.indexOf(`\n### ${name}\n`);
  expect(start, name).toBeGreaterThan(0);
  return text.slice(start, text.indexOf('\n### ', start + 5));
}

describe('the page of a service', () => {
  test('is one for each service, with the digest that it is about, and all tools', () => {
    expect([...pages.keys()]).toEqual(['README.md', 'retail.md']);
    expect(pages.get('README.md')).toContain('| [retail](retail.md) | 4 | 1 | 2 |');
    for (const text of pages.values()) expect(text).toContain(catalogue.digest);
    for (const { name, version, digest } of catalogue.tools.values()) {
      expect(page).toContain(`| [${name}](#${name}) | ${version} |`);
      expect(section(name)).toContain(digest);
    }
  });

  test('says who may, what is checked, what is approved, what it does, what can go wrong and how that is settled', () => {
    const credit = section('issue_credit');
    for (const said of [
      'a write that cannot be undone',
      '`customer_id` is `principal.subject`',
      'The state of the order: legal in DELIVERED (then DELIVERED).',
      'within\\_balance: `args.amount <= order.refundable`. Otherwise `AMOUNT_EXCEEDS_BALANCE`, next `ask`.',
      '| `args.amount > 40000` | 2 by reviewer | 4 h |',
      '`POST /orders/{args.order_id}/credits` is sent, under a key that the service keeps for 24h.',
      'It never changes: `order.status`.',
      'agree in `order_id`, `amount`, `currency` within one intent',
      '| `status == 412` | refused, nothing done | `ORDER_CHANGED` | `refresh` |',
      '`get_credit_receipt` is asked with `{"request_key":"operation.id"}`',
      'at least 10 s after the last byte was sent',
      'A person can take it back with `void_credit`.',
    ]) expect(credit).toContain(said);
  });

  test('a read says nothing of approval or of unknown outcomes', () => {
    expect(section('convert_temperature')).not.toMatch(/#### (Approval|How an unknown)/);
    expect(section('convert_temperature')).not.toContain('is declared that it must never change');
  });

  test('lists what follows from every answer that the contract does not map, as the gate does it', () => {
    const meant: Record<string, string> = { accepted: 'accepted, not done yet', claimed: 'said to be done: looked for as below', rejected: 'refused, nothing done', not_committed: 'nothing done', unknown: 'unknown: settled as below' };
    const write: ToolPlan = { ...catalogue.tools.get('void_credit')!, errors: [], notFound: null, async: null };
    const [credit, quote] = [section('void_credit'), section('quote_credit')];
    for (let status = 200; status < 600; status++) {
      const exchange: Exchange = { kind: 'response', sent: true, status, headers: {}, body: { unreadable: 'not_json' }, ms: 1 };
      const own = unmappedWrites.filter(({ holds }) => holds(status));
      expect(own.map(({ means }) => means), String(status)).toEqual([meant[classify(write, exchange, { unknownBefore: 0, scope: {} }).outcome]]);
      expect(classify(write, exchange, { unknownBefore: 1, scope: {} }).outcome, String(status)).toBe(status >= 200 && status < 300 ? (status === 202 ? 'accepted' : 'claimed') : 'unknown');
      expect(unmappedReads.filter(({ holds }) => holds(status)), String(status)).toHaveLength(1);
      if (own[0]!.code) expect(problems[own[0]!.code as keyof typeof problems].next).toBe(own[0]!.next);
    }
    expect([unmappedWrites, unmappedReads].map((rows) => rows.filter(({ holds }) => holds(null)).length)).toEqual([1, 1]);
    for (const { answers } of unmappedWrites) expect(credit).toContain(`| ${answers} |`);
    for (const { answers } of unmappedReads) expect(quote).toContain(`| ${answers} |`);
  });

  test('a write without a read-back says that a person has to look, or that the key is used again', () => {
    const settled = (keyed: boolean) => section('void_credit', documentation(voidCreditWithoutReadback(keyed)).get('retail.md'));
    expect(settled(true)).toContain('It is sent again under the same key while the service still keeps it');
    expect(settled(false)).toContain('Nothing can tell. It goes to a person.');
  });

  test('a changed rule changes the page', () => {
    const { dir } = mutated('args.amount > 10000', 'args.amount > 20000');
    const changed = documentation(catalogueOf(compileFolder(dir, {}))).get('retail.md')!;
    expect(section('issue_credit', changed)).toContain('`args.amount > 20000`');
    expect(changed).not.toContain(catalogue.digest);
  });

  test('carries the policies as they are written, and no secret', () => {
    expect(page).toContain('@id("nobody-crosses-tenants")');
    expect(page).toContain('read from `env:RETAIL_TOKEN`');
    expect(documentation(catalogueOf(compileFolder(retailFolder, { RETAIL_TOKEN: 'hunter2' }))).get('retail.md')).not.toContain('hunter2');
  });
});

describe('a state diagram', () => {
  test('has every state and every transition, and where states come from', () => {
    expect(page).toContain(
      [
        '```mermaid', 'stateDiagram-v2', '  state "PENDING" as s0', '  state "DELIVERED" as s1', '  state "CANCELLED" as s2', '  [*] --> s0',
        '  [*] --> s1: by the service itself', '  s1 --> s1: issue_credit', '  s0 --> s2: cancel_order', '```',
      ].join('\n'),
    );
  });

  test('is well-formed whatever the states are called', () => {
    const observe = { tool: 't', args: {}, max_age: '5s' };
    const states = ['in transit', 'a"b', 'end', 'x-->y', 'state: odd\nline'];
    const text = stateDiagram({ id: 'args.id', observe, states, initial: ['end'], external: ['a"b'], transitions: { 'in transit': { deliver: 'x-->y' } } });
    for (const line of text.split('\n').slice(1)) expect(line).toMatch(/^ {2}(state "[^"\n]*" as s\d|(\[\*\]|s\d) --> s\d(: [\w ]+)?)$/);
    expect(text.split('\n')).toHaveLength(1 + states.length + 3);
  });
});

test('text of an owner is shown and never becomes markup', () => {
  expect(code('a ` b')).toBe('``a ` b``');
  expect(code('`a`')).toBe('`` `a` ``');
  expect(prose('<script>\n[x](y) | *b*')).toBe('\\<script\\> \\[x\\](y) \\| \\*b\\*');
  expect(table(['a'], [['x | y'], [prose('p | q')]])).toBe('| a |\n|---|\n| x \\| y |\n| p \\| q |');
  expect(fenced('cedar', '```\nno')).toBe('````cedar\n```\nno\n````');
});
