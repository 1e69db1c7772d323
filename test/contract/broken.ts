/**
 * For each code a contract that has it and one that does not: what the tests of the compiler are made of, and docs/diagnostics.md, whose
 * examples are therefore what the compiler really says.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Diagnostic, DiagnosticCode } from '../../src/contract/diagnostics.js';
import type { Catalogue } from '../../src/contract/plan.js';
import { addressProblems } from '../../src/contract/upstream-addresses.js';
import { limitProblems } from '../../src/contract/views/limits.js';
import { openEgress } from '../../src/upstream/egress.js';
import { checkoutFolder } from '../support/checkout.js';
import { folderWith, mutated, retailFolder, retailText } from './fixture.js';
import { warehouseFolder } from './warehouse.js';

export interface Broken {
  code: DiagnosticCode;
  what: string;
  from: string;
  to: string;
  /** On the line reported. */
  at: string;
  says?: RegExp;
}

export const check = 'check: args.amount <= order.refundable';
const creditEffects = `    effects:
      creates: one credit receipt keyed by operation.id
      changes: [order.refundable, order.version]
      never: [order.status] # observed again after the commit\n`;
const voidReadback = `    readback:
      tool: get_credit_receipt
      args: { request_key: operation.id }
      committed: result.count == 1 && result.voided
      absent: result.count == 0
      result: '{"receipt_id": result.receipt.receipt_id, "voided": result.voided, "amount": result.amount}'
      settle_after: 10s\n`;
const voidRest = `    idempotency: { honoured: true, window: 24h }
    effects:
      creates: one void of the credit, keyed by operation.id
      never: []
    errors:
      - { when: status == 409 && body.code == "ALREADY_VOIDED", outcome: rejected, code: ALREADY_VOIDED, next: abandon }
    not_found: status == 404\n`;
const convert = 'convert_temperature:\n    version: 1.0.0\n    effect: none\n';

/** The example with one passage replaced. */
export const broken: Broken[] = [
  { code: 'CG001', what: 'YAML that does not parse', from: 'service: retail\n', to: 'service: [retail\n', at: '' },
  {
    code: 'CG002',
    what: 'a member written twice',
    from: 'service: retail\n',
    to: 'service: retail\nservice: other\n',
    at: 'service: other',
  },
  { code: 'CG003', what: 'a number that is not finite', from: 'maximum: 1000000 }', to: 'maximum: .inf }', at: '.inf' },
  {
    code: 'CG003',
    what: 'an alias to nowhere',
    from: 'currency: { enum: [GBP] }\n      required: [order_id, amount',
    to: 'currency: *gone\n      required: [order_id, amount',
    at: '*gone',
  },
  {
    code: 'CG004',
    what: 'a misspelt member',
    from: 'use_when: The order is delivered',
    to: 'use_wen: The order is delivered',
    at: 'use_wen',
    says: /`use_when`/,
  },
  {
    code: 'CG005',
    what: 'a missing member',
    from: '    purpose: Take back one store credit that was given before.\n',
    to: '',
    at: 'void_credit:',
    says: /`purpose`/,
  },
  {
    code: 'CG006',
    what: 'an effect that does not exist',
    from: 'effect: irreversible',
    to: 'effect: irreversable',
    at: 'irreversable',
    says: /`irreversible`/,
  },
  {
    code: 'CG006',
    what: 'a tool name of more than 64 characters',
    from: 'convert_temperature:',
    to: `${'x'.repeat(65)}:`,
    at: 'x'.repeat(65),
  },
  {
    code: 'CG007',
    what: 'the environment outside base_url',
    from: 'purpose: Take back',
    to: 'purpose: ${SECRET} Take back',
    at: '${SECRET}',
  },
  { code: 'CG008', what: 'a policy file that is not there', from: 'policies/retail.cedar', to: 'policies/gone.cedar', at: 'gone.cedar' },
  {
    code: 'CG008',
    what: 'a policy file outside the folder',
    from: 'policies/retail.cedar',
    to: '../../../../etc/hostname',
    at: 'hostname',
  },
  {
    code: 'CG009',
    what: 'a base_url whose variable is not set',
    from: '${RETAIL_URL:-http://127.0.0.1:8090}',
    to: '${RETAIL_URL}',
    at: 'base_url',
  },
  {
    code: 'CG010',
    what: 'a base_url with credentials',
    from: 'http://127.0.0.1:8090',
    to: 'http://me:secret@127.0.0.1:8090',
    at: 'base_url',
  },
  {
    code: 'CG012',
    what: 'a credential that is a secret of the gateway',
    from: 'value_from: env:RETAIL_TOKEN',
    to: 'value_from: env:CALLGATE_SECRETS_SEAL_KEY',
    at: 'CALLGATE_SECRETS_SEAL_KEY',
  },
  {
    code: 'CG012',
    what: 'a secret of callbacks before that is one of the gateway',
    from: 'previous_secret_from: env:RETAIL_WEBHOOK_SECRET_BEFORE',
    to: 'previous_secret_from: env:CALLGATE_SECRETS_KEY_PEPPER',
    at: 'CALLGATE_SECRETS_KEY_PEPPER',
  },
  {
    code: 'CG009',
    what: 'a base_url that would carry a secret of the gateway',
    from: '${RETAIL_URL:-http://127.0.0.1:8090}',
    to: 'http://elsewhere.test/${CALLGATE_SECRETS_SEAL_KEY:-x}',
    at: 'base_url',
    says: /gateway’s own/,
  },
  {
    code: 'CG101',
    what: 'an unknown member in a precondition',
    from: check,
    to: 'check: args.amount <= order.refundible',
    at: 'refundible',
    says: /`refundable`/,
  },
  {
    code: 'CG101',
    what: 'an unknown member in has()',
    from: 'has(result.cancelled_by) && result.cancelled_by == operation.id',
    to: 'has(result.canceled_by)',
    at: 'canceled_by)',
  },
  { code: 'CG101', what: 'an unknown name', from: check, to: 'check: args.amount <= ordr.refundable', at: 'ordr', says: /`order`/ },
  {
    code: 'CG101',
    what: 'an operation in a check before the operation exists',
    from: check,
    to: 'check: operation.id != "" && args.amount <= order.refundable',
    at: 'check:',
  },
  {
    code: 'CG101',
    what: 'a text compared with a number',
    from: check,
    to: 'check: args.currency <= order.refundable',
    at: 'args.currency <=',
  },
  { code: 'CG102', what: 'a check that is no boolean', from: check, to: 'check: args.amount - order.refundable', at: 'args.amount - ' },
  {
    code: 'CG102',
    what: 'a day that does not exist',
    from: check,
    to: `check: 'now < timestamp("2026-02-30T00:00:00Z") && args.amount <= order.refundable'`,
    at: '2026-02-30',
  },
  { code: 'CG103', what: 'an expression that is not CEL', from: check, to: 'check: args.amount <=', at: 'check:' },
  { code: 'CG104', what: 'dyn()', from: check, to: 'check: dyn(args.amount) <= order.refundable', at: 'dyn(' },
  {
    code: 'CG104',
    what: 'a pattern with a back-reference',
    from: check,
    to: `check: 'args.order_id.matches("(a)\\\\1") && args.amount <= order.refundable'`,
    at: 'matches',
  },
  {
    code: 'CG104',
    what: 'a pattern that is not a literal',
    from: check,
    to: 'check: order.status.matches(args.currency) && args.amount <= order.refundable',
    at: 'matches',
  },
  {
    code: 'CG105',
    what: 'an expression without end',
    from: check,
    to: `check: ${'args.amount + '.repeat(300)}1 <= order.refundable`,
    at: 'check:',
  },
  {
    code: 'CG106',
    what: 'a read-back tool that does not exist',
    from: 'tool: get_credit_receipt\n',
    to: 'tool: get_credit_reciept\n',
    at: 'get_credit_reciept',
    says: /`get_credit_receipt`/,
  },
  {
    code: 'CG107',
    what: 'an entity that does not exist',
    from: 'effect: irreversible\n    entity: order',
    to: 'effect: irreversible\n    entity: oder',
    at: 'oder',
    says: /`order`/,
  },
  {
    code: 'CG108',
    what: 'a read-back by a write',
    from: 'tool: get_credit_receipt\n      args: { request_key: operation.id }',
    to: 'tool: void_credit\n      args: { receipt_id: operation.id }',
    at: 'tool: void_credit',
  },
  {
    code: 'CG109',
    what: 'an argument that the read-back does not take',
    from: 'args: { request_key: operation.id }',
    to: 'args: { request_kee: operation.id }',
    at: 'request_kee',
    says: /`request_key`/,
  },
  {
    code: 'CG109',
    what: 'an argument of the wrong type',
    from: 'args: { request_key: operation.id }',
    to: 'args: { request_key: args.amount, x: operation.id }',
    at: 'request_key: args.amount',
  },
  { code: 'CG112', what: 'a template left open', from: '/orders/{args.order_id}/cancel', to: '/orders/{args.order_id/cancel', at: 'path:' },
  {
    code: 'CG112',
    what: 'a path that climbs',
    from: '/orders/{args.order_id}/cancel',
    to: '/orders/{args.order_id}/../cancel',
    at: 'path:',
  },
  {
    code: 'CG113',
    what: 'any number of reads before a call',
    from: '    expect: observed\n',
    to: '    observe: { others: { for_each: { in: principal.roles, as: role }, tool: get_order, args: { order_id: role }, max_age: 5s } }\n',
    at: 'for_each',
    says: /nothing bounds the list/,
  },
  {
    code: 'CG114',
    what: 'a member that is left out without anything that could be absent',
    from: 'query: { amount: "{args.amount}" }',
    to: 'query: { "?amount": "{args.amount + 1}" }',
    at: '?amount',
  },
  { code: 'CG901', what: 'a question that is still open', from: 'settle_after: 10s', to: 'settle_after: "GAP: how long"', at: 'GAP', says: /how long/ },
  { code: 'CG201', what: 'a write without effects', from: creditEffects, to: '', at: 'issue_credit:' },
  {
    code: 'CG202',
    what: 'a write without never',
    from: '      never: [order.status] # observed again after the commit\n',
    to: '',
    at: 'effects:',
  },
  {
    code: 'CG203',
    what: 'a read with effects',
    from: convert,
    to: `${convert}    effects: { creates: nothing, never: [] }\n`,
    at: 'effects: { creates: nothing',
  },
  {
    code: 'CG203',
    what: 'a read with an approval, which nothing would wait for',
    from: convert,
    to: `${convert}    approval: [{ when: "true", by: reviewer }]\n`,
    at: 'approval: [{ when: "true"',
  },
  {
    code: 'CG204',
    what: 'a write by GET',
    from: '      method: POST\n      path: "/orders/{args.order_id}/cancel"',
    to: '      method: GET\n      path: "/orders/{args.order_id}/cancel"',
    at: 'method: GET',
  },
  { code: 'CG205', what: 'a GET with a body', from: 'path: /convert, query', to: 'path: /convert, body: { a: 1 }, query', at: '/convert' },
  {
    code: 'CG301',
    what: 'an error without next',
    from: 'code: CREDIT_LIMIT, next: escalate',
    to: 'code: CREDIT_LIMIT',
    at: 'CREDIT_LIMIT',
  },
  {
    code: 'CG302',
    what: 'a retry where an effect may have happened',
    from: `${voidRest}${voidReadback}`,
    to: `${voidRest.replace('honoured: true', 'honoured: false').replace('next: abandon', 'next: retry')}${voidReadback}`,
    at: 'ALREADY_VOIDED',
  },
  {
    code: 'CG401',
    what: 'an ambiguous write without read-back',
    from: `${voidRest}${voidReadback}`,
    to: voidRest.replace('    idempotency: { honoured: true, window: 24h }\n', ''),
    at: 'void_credit:',
  },
  { code: 'CG402', what: 'a read-back without settle window', from: '      settle_after: 10s\n      lag: 0s\n', to: '', at: 'readback:' },
  {
    code: 'CG403',
    what: 'an irreversible write that nobody settles and nobody approves',
    from: '    effect: write\n',
    to: '    effect: irreversible\n    on_unknown: review\n',
    at: 'on_unknown',
  },
  {
    code: 'CG405',
    what: 'an honoured key without a window',
    from: 'idempotency: { honoured: true, window: 24h }',
    to: 'idempotency: { honoured: true }',
    at: 'idempotency: { honoured: true }',
  },
  {
    code: 'CG406',
    what: 'a read-back by a natural key',
    from: 'args: { request_key: operation.id }',
    to: 'args: { request_key: args.order_id }',
    at: 'readback:',
  },
  {
    code: 'CG406',
    what: 'a read-back that holds only one of its verdicts against what was seen before',
    from: 'committed: result.status == "CANCELLED" && has(result.cancelled_by) && result.cancelled_by == operation.id\n      absent: result.status != "CANCELLED" || !has(result.cancelled_by) || result.cancelled_by != operation.id',
    to: 'committed: result.status == "CANCELLED" && order.status == "PENDING"\n      absent: result.status != "CANCELLED"',
    at: 'readback:',
  },
  { code: 'CG414', what: 'a read-back that proves absence by nothing', from: 'absent: result.count == 0', to: 'absent: "true"', at: 'absent: "true"' },
  { code: 'CG414', what: 'a read-back that proves an effect by its arguments', from: 'committed: result.count == 1 && result.voided', to: 'committed: args.receipt_id != ""', at: 'committed: args.receipt_id' },
  { code: 'CG414', what: 'a read-back whose verdicts are one', from: 'absent: result.count == 0', to: 'absent: result.count == 1 && result.amount == args.amount', at: 'absent: result.count == 1' },
  {
    code: 'CG407',
    what: 'polling without a read-back',
    from: `${voidRest}${voidReadback}`,
    to: `${voidRest}    async: { accepted: status == 202, poll: readback, deadline: 1h }\n`,
    at: 'async: { accepted',
  },
  {
    code: 'CG410',
    what: 'callbacks without a secret',
    from: '  callbacks: { secret_from: env:RETAIL_WEBHOOK_SECRET, previous_secret_from: env:RETAIL_WEBHOOK_SECRET_BEFORE } # the second only while the first is replaced\n',
    to: '',
    at: 'callback: # what',
  },
  {
    code: 'CG411',
    what: 'a callback that every event would be',
    from: 'committed: body.type == "credit.created" && body.data.amount == args.amount',
    to: 'committed: args.amount > 0',
    at: 'args.amount > 0',
  },
  {
    code: 'CG101',
    what: 'an event that is looked for by what only its operation knows',
    from: 'operation: body.data.request_key',
    to: 'operation: args.order_id',
    at: 'args.order_id',
  },
  {
    code: 'CG102',
    what: 'a callback that proves a text',
    from: 'committed: body.type == "credit.created" && body.data.amount == args.amount',
    to: 'committed: string(body.type)',
    at: 'string(body.type)',
  },
  {
    code: 'CG006',
    what: 'a secret in the contract',
    from: 'secret_from: env:RETAIL_WEBHOOK_SECRET,',
    to: 'secret_from: whsec_bm90LWEtc2VjcmV0LWF0LWFsbA==,',
    at: 'whsec_',
  },
  {
    code: 'CG412',
    what: 'an undo that only reads',
    from: 'compensate: { tool: void_credit, args: { receipt_id: result.receipt_id } }',
    to: 'compensate: { tool: get_credit_receipt, args: { request_key: result.receipt_id } }',
    at: 'get_credit_receipt, args: { request_key: result',
  },
  {
    code: 'CG412',
    what: 'an undo of itself',
    from: 'compensate: { tool: void_credit, args: { receipt_id: result.receipt_id } }',
    to: 'compensate: { tool: issue_credit, args: { order_id: args.order_id, amount: args.amount, currency: args.currency } }',
    at: 'issue_credit, args: { order_id: args.order_id, amount',
  },
  {
    code: 'CG408',
    what: 'a read-back whose answer is none',
    from: '"voided": result.voided,',
    to: '"voidded": result.voided,',
    at: 'voidded',
    says: /`voided`/,
  },
  {
    code: 'CG101',
    what: 'a text that the state can never be',
    from: 'committed: result.status == "CANCELLED"',
    to: 'committed: result.status == "CANCELED"',
    at: 'CANCELED',
    says: /did you mean `CANCELLED`/,
  },
  {
    code: 'CG609',
    what: 'a state that the observation never gives',
    from: 'status: { enum: [PENDING, DELIVERED, CANCELLED] }\n        refundable',
    to: 'status: { enum: [PENDING, DELIVRED, CANCELLED] }\n        refundable',
    at: 'states:',
    says: /never gives/,
  },
  {
    code: 'CG605',
    what: 'a requirement that nothing declares',
    from: 'required: [receipt_id, voided, amount]',
    to: 'required: [receipt_id, voided, amuont]',
    at: 'amuont',
    says: /`amount`/,
  },
  {
    code: 'CG206',
    what: 'a write that need not be durable',
    from: '    expect: observed\n',
    to: '    durability: relaxed\n',
    at: 'durability: relaxed',
  },
  {
    code: 'CG303',
    what: 'members of an error that no rule recognises',
    from: '    not_found: status == 404',
    to: '    public: [code]\n    not_found: status == 404',
    at: 'public: [code]',
  },
  {
    code: 'CG409',
    what: 'items whose outcome a read-back does not give',
    from: "      result: result.receipt # the answer to give, checked against this tool's result schema\n      settle_after: 10s\n      lag: 0s\n",
    to: '      settle_after: 10s\n    partial: { items: "[result.receipt_id]", key: item, failed: "false" }\n',
    at: 'readback:',
  },
  {
    code: 'CG101',
    what: 'a summary for a person of something else than the arguments',
    from: 'by: application, expires: 10m, summary: "Credit {args.amount}',
    to: 'by: application, expires: 10m, summary: "Credit {order.refundable}',
    at: 'Credit {order.refundable}',
  },
  {
    code: 'CG413',
    what: 'items that are tried again without a key that is honoured',
    from: "    idempotency: { honoured: true, window: 24h }\n    effects:\n      creates: one void of the credit, keyed by operation.id\n",
    to: '    partial: { items: "[result.receipt_id]", key: item, failed: "false", retry: "true" }\n    effects:\n      creates: one void of the credit, keyed by operation.id\n',
    at: 'retry: "true"',
  },
  {
    code: 'CG102',
    what: 'items that are no list',
    from: '    expect: observed\n',
    to: '    partial: { items: result.receipt_id, key: item, failed: "false" }\n',
    at: 'items: result.receipt_id',
  },
  {
    code: 'CG101',
    what: 'a member that an item does not have',
    from: '    expect: observed\n',
    to: '    partial: { items: "[result]", key: item.receipt, failed: "false" }\n',
    at: 'item.receipt',
  },
  {
    code: 'CG101',
    what: 'the mark of the session where it is not known yet',
    from: 'bind: { customer_id: principal.subject } # never shown',
    to: 'bind: { customer_id: principal.subject, marked: session.untrusted } # never shown',
    at: 'session.untrusted',
  },
  { code: 'CG501', what: 'an authority that only the model decides', from: check, to: 'check: args.amount <= 50000', at: 'authority:' },
  {
    code: 'CG502',
    what: 'a bound value that is an argument too',
    from: 'bind: { customer_id: principal.subject }',
    to: 'bind: { customer_id: principal.subject, currency: \'"GBP"\' }',
    at: 'bind:',
  },
  {
    code: 'CG603',
    what: 'an open schema',
    from: '      required: [receipt_id]\n    bind',
    to: '      required: [receipt_id]\n      additionalProperties: true\n    bind',
    at: 'additionalProperties: true',
  },
  {
    code: 'CG603',
    what: 'an argument that admits anything',
    from: 'value: { type: number, minimum: -1000000, maximum: 1000000 }',
    to: 'value: { description: any }',
    at: 'description: any',
  },
  {
    code: 'CG604',
    what: 'a keyword that cannot be enforced',
    from: 'required: [receipt_id]\n    bind',
    to: 'required: [receipt_id]\n      unevaluatedProperties: false\n    bind',
    at: 'unevaluatedProperties',
  },
  {
    code: 'CG604',
    what: '$dynamicRef',
    from: 'value: { type: number, minimum',
    to: 'value: { $dynamicRef: "#x", type: number, minimum',
    at: '$dynamicRef',
  },
  {
    code: 'CG605',
    what: 'a schema that is none',
    from: 'value: { type: number, minimum: -1000000',
    to: 'value: { type: nmber, minimum: -1000000',
    at: 'type: nmber',
  },
  {
    code: 'CG605',
    what: 'a reference to nowhere',
    from: 'value: { type: number, minimum: -1000000, maximum: 1000000 }',
    to: 'value: { $ref: "#/$defs/gone" }',
    at: '$ref',
  },
  { code: 'CG606', what: 'a pattern with look-ahead', from: 'pattern: "^[A-Za-z0-9_-]+$"', to: 'pattern: "^(?=a)[a-z]+$"', at: '(?=a)' },
  {
    code: 'CG607',
    what: 'an example that is not valid',
    from: 'args: { receipt_id: rc_1 }',
    to: 'args: { receipt: rc_1 }',
    at: 'args: { receipt: rc_1 }',
  },
  { code: 'CG608', what: 'a version that is not semantic', from: 'version: 3.1.0', to: 'version: v3', at: 'version: v3' },
  {
    code: 'CG609',
    what: 'a typo in a state',
    from: 'PENDING: { cancel_order',
    to: 'PENDNG: { cancel_order',
    at: 'PENDNG',
    says: /`PENDING`/,
  },
  {
    code: 'CG610',
    what: 'a state that nothing leads to',
    from: 'states: [PENDING, DELIVERED, CANCELLED]\n',
    to: 'states: [PENDING, DELIVERED, CANCELLED, LOST]\n',
    at: 'LOST',
  },
  {
    code: 'CG611',
    what: 'a write that is legal nowhere',
    from: 'DELIVERED: { issue_credit: DELIVERED }',
    to: 'DELIVERED: {}',
    at: 'entity: order',
  },
  {
    code: 'CG612',
    what: 'a transition by a tool of something else',
    from: 'DELIVERED: { issue_credit: DELIVERED }',
    to: 'DELIVERED: { issue_credit: DELIVERED, void_credit: DELIVERED }',
    at: 'void_credit: DELIVERED',
  },
  { code: 'CG613', what: 'a reserved name', from: '    expect: observed\n', to: '    let: { result: args.amount }\n', at: 'let:' },
  {
    code: 'CG614',
    what: 'a header that is not the contract’s',
    from: 'headers: { Idempotency-Key: "{operation.id}", If-Match',
    to: 'headers: { Host: evil, Idempotency-Key: "{operation.id}", If-Match',
    at: 'Host: evil',
  },
  {
    code: 'CG614',
    what: 'a literal secret',
    from: 'headers: { Idempotency-Key: "{operation.id}", If-Match',
    to: 'headers: { Authorization: Bearer x, Idempotency-Key: "{operation.id}", If-Match',
    at: 'Authorization: Bearer x',
  },
  {
    code: 'CG615',
    what: 'an identity argument that does not exist',
    from: 'arguments: [order_id, amount, currency] }',
    to: 'arguments: [order_id, ammount, currency] }',
    at: 'ammount',
    says: /`amount`/,
  },
  {
    code: 'CG607',
    what: 'an example that a relation refuses',
    from: '    preconditions:\n',
    to: '    preconditions:\n      - { id: small, check: args.amount < 2500, otherwise: { code: TOO_MUCH } }\n',
    at: 'examples: [{ args: { order_id: O-417, amount: 2500',
    says: /args\.amount < 2500/,
  },
  {
    code: 'CG607',
    what: 'an example that sends what is bound',
    from: 'amount: 2500, currency: GBP }',
    to: 'amount: 2500, currency: GBP, customer_id: C-17 }',
    at: 'customer_id: C-17',
    says: /never sent by the model/,
  },
  {
    code: 'CG618',
    what: 'a counterexample that nothing refuses',
    from: '    examples: [{ args: { receipt_id: rc_1 } }]\n',
    to: '    counterexamples: [{ args: { receipt_id: rc_1 }, why: It was spent. }]\n',
    at: 'counterexamples',
  },
  {
    code: 'CG616',
    what: 'a text without end',
    from: '"^[A-Za-z0-9_-]+$", maxLength: 64',
    to: '"^[A-Za-z0-9_-]+$"',
    at: 'receipt_id: { type: string',
    says: /`maxLength`/,
  },
  {
    code: 'CG616',
    what: 'arguments that contain themselves',
    from: 'properties: { order_id: { type: string, pattern: "^O-[0-9]+$", maxLength: 20 } }\n      required: [order_id]\n    http:\n      method: POST',
    to: 'properties: { order_id: { type: string, maxLength: 20 }, more: { $ref: "#" } }\n      required: [order_id]\n    http:\n      method: POST',
    at: 'args:',
    says: /contains itself/,
  },
  {
    code: 'CG617',
    what: 'a guard that may be forgotten',
    from: 'maxLength: 64 } }\n      required: [receipt_id]',
    to: 'maxLength: 64 }, dry_run: { type: boolean } }\n      required: [receipt_id]',
    at: 'dry_run',
  },
];
/** Two passages have to change for this one. */
export const observedChange = mutated(
  '    expect: observed\n',
  '    observe: { other: { tool: get_order, args: { order_id: args.order_id }, max_age: 5s } }\n',
).text.replace('changes: [order.refundable, order.version]', 'changes: [other.refundable]');


/** Of codes that need more than one passage of the example, or another contract: one file that fails and the same file mended. */
export interface Example {
  code: DiagnosticCode;
  file: string;
  failing: string;
  mended: string;
  folder(text: string): string;
}

export function examples(): Example[] {
  const passages = broken.filter(({ code }, index) => broken.findIndex((one) => one.code === code) === index)
    .map(({ code, from, to }): Example => ({ code, file: 'retail.yaml', failing: mutated(from, to).text, mended: retailText, folder: (text) => folderWith(text).dir }));
  return [...passages, ...others()].sort((a, b) => (a.code < b.code ? -1 : 1));
}

type Change = [from: string, to: string];

function others(): Example[] {
  const inRetail = (code: DiagnosticCode, failing: string): Example => ({ code, file: 'retail.yaml', failing, mended: retailText, folder: (text) => folderWith(text).dir });
  const inFolder = (code: DiagnosticCode, file: string, whole: string, folder: string): Example => {
    const failing = readFileSync(join(folder, file), 'utf8');
    return { code, file, failing, mended: readFileSync(join(whole, file), 'utf8'), folder: (text) => rewritten(folder, file, text) };
  };
  const checkout = (code: DiagnosticCode, ...changes: Change[]): Example => inFolder(code, 'checkout.yaml', checkoutFolder(), checkoutFolder(...changes));
  const warehouse = (code: DiagnosticCode, whole: Change[], ...changes: Change[]): Example => inFolder(code, 'warehouse.yaml', warehouseFolder(...whole), warehouseFolder(...whole, ...changes));
  const entityOf: Change[] = [
    ['tools:\n  get_order:', '  customer:\n    id: order.user_id\n    observe: { tool: get_user, args: { user_id: order.user_id }, max_age: 5s }\ntools:\n  get_order:'],
    ['    entity: order\n    purpose: Exchange', '    entity: order\n    touches: [customer]\n    purpose: Exchange'],
  ];
  return [
    inRetail('CG110', observedChange),
    warehouse('CG115', [], ['id: args.order_id', 'id: order.order_id']),
    warehouse('CG116', entityOf, ['    entity: order\n    touches: [customer]', '    entity: customer'], ['transitions: { delivered: { exchange_items: exchange_requested } }', 'transitions: { delivered: {} }']),
    checkout('CG117', ['bind: { transaction_id: last(create_transaction).transaction_id }', 'bind: { transaction_id: last(quote_fee).fee }']),
    checkout('CG118',
      ['tools:\n', '  order:\n    id: args.order_id\n    state: gateway\n    states: [OPEN]\n    initial: [OPEN]\n    transitions: { OPEN: { create_transaction: OPEN } }\ntools:\n'],
      ['    entity: transaction\n    purpose: Open', '    entity: order\n    purpose: Open'],
      ['NEW: { create_transaction: CREATED }\n', ''], ['states: [NEW, CREATED', 'states: [CREATED'], ['initial: [NEW]', 'initial: [CREATED]']),
    checkout('CG619', ['initial: [NEW]', 'initial: [NEW, CREATED]']),
    ...policies(),
    { code: 'CG601', file: 'second.yaml', failing: second('convert_temperature'), mended: second('convert_length'), folder: withSecond },
  ];
}

function rewritten(folder: string, file: string, text: string): string {
  writeFileSync(join(folder, file), text);
  return folder;
}

const second = (tool: string): string =>
  `callgate: 1\nservice: lengths\nupstream: { base_url: http://127.0.0.1:8091 }\ntools:\n  ${tool}:\n    version: 1.0.0\n    effect: none\n    purpose: Convert.\n` +
  '    args: { type: object }\n    result: { type: object }\n    http: { method: GET, path: /convert }\n';

function withSecond(text: string): string {
  const { dir } = folderWith(retailText);
  writeFileSync(join(dir, 'second.yaml'), text);
  return dir;
}

function policies(): Example[] {
  const file = 'policies/retail.cedar';
  const own = readFileSync(join(retailFolder, file), 'utf8');
  const labelled = retailText.replace('customer_id: { type: string }', 'customer_id: { type: string }\n        labels: { type: object, additionalProperties: { type: string } }');
  const example = (code: DiagnosticCode, failing: string, mended: string, contract = retailText): Example => ({
    code, file, failing: `${own}\n${failing}\n`, mended: `${own}\n${mended}\n`,
    folder: (text) => {
      const { dir } = folderWith(contract);
      writeFileSync(join(dir, file), text);
      return dir;
    },
  });
  const order = 'principal, action, resource is order';
  const credit = 'principal, action == Action::"issue_credit", resource is order';
  return [
    example('CG503', 'forbid (principal, action, resource) whenever { context.untrusted };', 'forbid (principal, action, resource) when { context.untrusted };'),
    example('CG504', `forbid (${order}) when { resource.custmer_id == "C-1" };`, `forbid (${order}) when { resource.customer_id == "C-1" };`),
    example('CG505', `forbid (${credit}) when { context.args.amount > "30000" };`, `forbid (${credit}) when { context.args.amount > 30000 };`),
    example('CG506', `forbid (${order}) when { resource.version == "7" };`, `forbid (${order}) when { resource has version && resource.version == "7" };`),
    example('CG507', 'forbid (principal, action == Action::"convert_temperature", resource is order);', 'forbid (principal, action == Action::"convert_temperature", resource is Tool);'),
    example('CG508', `forbid (${order}) when { resource has labels };`, `forbid (${order}) when { resource.customer_id == "C-1" };`, labelled),
  ];
}

/** Codes that no text of a contract has: the command that is told it, and the one that is not. */
export const commands: Readonly<Partial<Record<DiagnosticCode, { failing: string; mended: string; folder: () => string; found?: (catalogue: Catalogue) => Diagnostic[] }>>> = {
  CG011: { failing: 'callgate check EMPTY', mended: 'callgate check examples/retail/contracts', folder: () => mkdtempSync(join(tmpdir(), 'callgate-empty-')) },
  CG620: { failing: 'callgate check examples/retail/contracts --limit openai-chat=5', mended: 'callgate check examples/retail/contracts --limit openai-chat=10', folder: () => retailFolder,
    found: (catalogue) => limitProblems(catalogue, { 'openai-chat': { tools: 5 } }) },
  CG621: { failing: 'CALLGATE_MODE=production callgate check examples/retail/contracts', mended: 'CALLGATE_MODE=production CALLGATE_UPSTREAM_ALLOW_PRIVATE=retail callgate check examples/retail/contracts',
    folder: () => retailFolder, found: (catalogue) => addressProblems(retailFolder, catalogue, openEgress({ allowed: new Map() }).problem) },
};
