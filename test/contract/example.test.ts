import { describe, expect, test } from 'vitest';
import { compileFolder, compileSource } from '../../src/contract/compile.js';
import { EvaluationError } from '../../src/contract/plan.js';
import { modelView } from '../../src/contract/views/model.js';
import { catalogueOf, folderWith, mutated, retailFolder, retailText } from './fixture.js';

const catalogue = catalogueOf(compileFolder(retailFolder, {}));
const tool = (name: string) => catalogue.tools.get(name)!;
const order = {
  order_id: 'O-417',
  status: 'DELIVERED',
  refundable: 5000,
  currency: 'GBP',
  version: '"7"',
  customer_id: 'user-9',
  tenant: 'acme',
};
const credit = {
  args: { order_id: 'O-417', amount: 2500, currency: 'GBP' },
  bound: { customer_id: 'user-9' },
  order,
  operation: { id: 'op_1' },
  principal: { id: 'agent-1', tenant: 'acme', subject: 'user-9', roles: ['agent'] },
};

describe('the retail contracts', () => {
  test('compile without a single diagnostic, all seven tools', () => {
    expect([...catalogue.tools.keys()].sort()).toEqual([
      'cancel_order',
      'convert_temperature',
      'get_credit_receipt',
      'get_order',
      'issue_credit',
      'quote_credit',
      'void_credit',
    ]);
    expect(catalogue.policies.map(({ file }) => file)).toEqual(['policies/retail.cedar']);
  });

  test('render the credit byte for byte, with the operation as key, the observed version and the bound customer', () => {
    expect(tool('issue_credit').render(credit)).toEqual({
      method: 'POST',
      url: 'http://127.0.0.1:8090/orders/O-417/credits',
      headers: { accept: 'application/json', 'content-type': 'application/json', 'idempotency-key': 'op_1', 'if-match': '"7"' },
      body: '{"amount":2500,"currency":"GBP","customer_id":"user-9"}',
    });
  });

  test('decide the credit over observed state, and refuse to decide it over a state that lacks the balance', () => {
    const [within] = tool('issue_credit').preconditions;
    expect(within!.check.evaluate(credit)).toBe(true);
    expect(within!.check.evaluate({ ...credit, order: { ...order, refundable: 2499 } })).toBe(false);
    const { refundable: _, ...withoutBalance } = order;
    expect(() => within!.check.evaluate({ ...credit, order: withoutBalance })).toThrow(EvaluationError);
    expect(within!.otherwise).toMatchObject({ code: 'AMOUNT_EXCEEDS_BALANCE', next: 'ask' });
  });

  test('tell a committed credit from an absent one, and from another amount under the same key', () => {
    const { committed, absent, result } = tool('issue_credit').readback!;
    const found = { count: 1, amount: 2500, voided: false, receipt: { receipt_id: 'rc_1', amount: 2500, order_id: 'O-417' } };
    expect([committed, absent].map((one) => one.evaluate({ ...credit, result: found }))).toEqual([true, false]);
    expect(result!.evaluate({ ...credit, result: found })).toEqual(found.receipt);
    expect(
      [committed, absent].map((one) => one.evaluate({ ...credit, result: { count: 0, amount: 0, voided: false, receipt: null } })),
    ).toEqual([false, true]);
    expect([committed, absent].map((one) => one.evaluate({ ...credit, result: { ...found, amount: 2400 } }))).toEqual([false, false]);
  });

  test('a cancellation made by somebody else is not taken for our own', () => {
    const { committed, absent } = tool('cancel_order').readback!;
    const over = (result: object) =>
      [committed, absent].map((one) => one.evaluate({ operation: { id: 'op_1' }, args: { order_id: 'O-418' }, result: result as never }));
    expect(over({ ...order, version: 2, status: 'CANCELLED', cancelled_by: 'op_1' })).toEqual([true, false]);
    expect(over({ ...order, version: 2, status: 'CANCELLED', cancelled_by: 'op_2' })).toEqual([false, true]);
    expect(over({ ...order, version: 2, status: 'CANCELLED' })).toEqual([false, true]);
    expect(over({ ...order, version: 2, status: 'PENDING' })).toEqual([false, true]);
  });

  test('the answer of a void that was read back satisfies the result schema of the void', () => {
    const plan = tool('void_credit');
    const result = { count: 1, amount: 2500, voided: true, receipt: { receipt_id: 'rc_1', amount: 2500, order_id: 'O-417' } };
    expect(plan.admitResult(plan.readback!.result!.evaluate({ result }))).toEqual({
      result: { receipt_id: 'rc_1', voided: true, amount: 2500 },
    });
  });

  test('errors are matched by status and body, and a body without a code matches nothing it should not', () => {
    const { errors } = tool('issue_credit');
    const first = (status: number, body: object) =>
      errors.find((rule) => rule.when.evaluate({ ...credit, status, headers: {}, body: body as never }));
    expect(first(412, { code: 'VERSION' })).toMatchObject({ class: 'version_conflict', next: 'refresh' });
    expect(first(422, { code: 'LIMIT' })).toMatchObject({ outcome: 'rejected', code: 'CREDIT_LIMIT', next: 'escalate' });
    expect(first(503, { code: 'NOT_STARTED' })).toMatchObject({ outcome: 'not_committed', next: 'retry' });
    expect(first(500, { code: 'LIMIT' })).toBeUndefined();
  });

  test('the read that observes the order is itself authorized as one', () => {
    expect(tool('get_order')).toMatchObject({ observesEntity: true, entity: { name: 'order' } });
    expect(tool('get_order').entity!.observation!.tool).toBe(tool('get_order'));
    expect(tool('quote_credit')).toMatchObject({ observesEntity: false, entity: { name: 'order' } });
    expect(tool('convert_temperature')).toMatchObject({ observesEntity: false, entity: null });
    expect(tool('get_order').entity!.observation!.version!.evaluate({ status: 200, headers: { etag: '"7"' }, body: {}, result: {} })).toBe(
      '"7"',
    );
  });

  test('a model never sees what is bound, where it is sent, or how it is read back', () => {
    const view = modelView(tool('issue_credit'));
    expect(view.description).toContain('Use when: The order is delivered');
    expect(view.description).toContain('Do not use when: The order is pending');
    expect(Object.keys(view.input_schema['properties'] as object)).toEqual(['order_id', 'amount', 'currency']);
    expect(view.input_schema['additionalProperties']).toBe(false);
    for (const name of catalogue.tools.keys())
      expect(JSON.stringify(modelView(tool(name)))).not.toMatch(/customer_id|operation\.id|127\.0\.0\.1|Idempotency/);
  });
});

describe('digests', () => {
  test('a catalogue compiles again from its stored source into the same digests and the same bytes to send', () => {
    const again = catalogueOf(compileSource(catalogue.source, {}));
    expect(again.digest).toBe(catalogue.digest);
    for (const [name, plan] of catalogue.tools) expect(again.tools.get(name)!.digest).toBe(plan.digest);
    expect(again.tools.get('issue_credit')!.render(credit)).toEqual(tool('issue_credit').render(credit));
  });

  test('the environment changes the address and no digest', () => {
    const elsewhere = catalogueOf(compileFolder(retailFolder, { RETAIL_URL: 'https://retail.test/v2/' }));
    expect(elsewhere.digest).toBe(catalogue.digest);
    expect(elsewhere.tools.get('issue_credit')!.digest).toBe(tool('issue_credit').digest);
    expect(elsewhere.tools.get('issue_credit')!.render(credit).url).toBe('https://retail.test/v2/orders/O-417/credits');
    expect(elsewhere.tools.get('issue_credit')!.upstream.origin).toBe('https://retail.test');
  });

  test('comments and layout change no digest; a changed rule changes that of its tool and of no other', () => {
    const commented = catalogueOf(compileFolder(folderWith(`# a comment\n${retailText}`).dir, {}));
    expect(commented.digest).toBe(catalogue.digest);
    const changed = catalogueOf(compileFolder(mutated('args.amount <= order.refundable', 'args.amount < order.refundable').dir, {}));
    expect(changed.digest).not.toBe(catalogue.digest);
    const differing = [...changed.tools.values()].filter((plan) => plan.digest !== tool(plan.name).digest).map((plan) => plan.name);
    expect(differing).toEqual(['issue_credit']);
  });

  test('a changed read changes the digest of every tool that relies on it', () => {
    const changed = catalogueOf(
      compileFolder(mutated('path: "/orders/{args.order_id}" }', 'path: "/v2/orders/{args.order_id}" }').dir, {}),
    );
    const differing = [...changed.tools.values()]
      .filter((plan) => plan.digest !== tool(plan.name).digest)
      .map((plan) => plan.name)
      .sort();
    expect(differing).toEqual(['cancel_order', 'get_order', 'issue_credit', 'quote_credit']);
  });
});

describe('credentials', () => {
  test('are a place in the plan, and no value', () => {
    const { auth } = catalogueOf(compileFolder(retailFolder, { RETAIL_TOKEN: 's3cret' })).tools.get('get_order')!.upstream;
    expect(auth).toEqual({ header: 'authorization', source: { from: 'env', name: 'RETAIL_TOKEN' }, prefix: 'Bearer ' });
    for (const [from, name] of [['file', 'retail.token'], ['command', 'retail-token']]) {
      const other = mutated('value_from: env:RETAIL_TOKEN', `value_from: ${from}:${name}`);
      expect(catalogueOf(compileFolder(other.dir, {})).tools.get('get_order')!.upstream.auth?.source).toEqual({ from, name });
    }
  });

  test.each(['file:../seal', 'file:/etc/passwd', 'file:.hidden', 'command:sh -c id', 'command:a/b', 'command:', 's3cret', 'env:A-B'])('cannot be `%s`', (from) => {
    expect(() => catalogueOf(compileFolder(mutated('value_from: env:RETAIL_TOKEN', `value_from: "${from}"`).dir, {}))).toThrow('CG006');
  });

  test('are part of neither the stored source nor a rendered request', () => {
    const secret = catalogueOf(compileFolder(retailFolder, { RETAIL_TOKEN: 's3cret' }));
    expect(secret.source).not.toContain('s3cret');
    expect(JSON.stringify(secret.tools.get('issue_credit')!.render(credit))).not.toContain('s3cret');
  });
});
