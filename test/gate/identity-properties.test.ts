import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ToolPlan } from '../../src/contract/plan.js';
import type { ActedEntity, Envelope } from '../../src/gate/calls.js';
import { identify, type IdentityInput, operationId } from '../../src/gate/identity.js';
import type { JsonObject, Principal } from '../../src/model.js';

/** semantics.md section 1 over all inputs: an identity is what was meant, no more and no less. */
const tool = (change: Partial<ToolPlan> = {}): ToolPlan =>
  ({ name: 'issue_credit', effect: 'irreversible', entity: null, identity: { scope: 'intent', arguments: ['order', 'amount'], windowMs: null }, ...change }) as ToolPlan;
const principal: Principal = { tenant: 'acme', id: 'agent-1', roles: ['agent'], subject: null, purposes: [], tools: '*', grants: { assertSubject: true, ownKeys: true } };
const envelope: Envelope = {
  sessionId: 's', turnId: '', intentId: '', callId: 'c', callIdMinted: false, name: 'c', sameAs: 'c', occurrence: 1, expectedVersion: null, idempotencyKey: null, purpose: '', subject: 'C-17',
};
const named = (name: string) => ({ name, sameAs: name });
const input = (change: { who?: Partial<Principal>; envelope?: Partial<Envelope>; tool?: Partial<ToolPlan>; args?: JsonObject; bound?: JsonObject; entities?: IdentityInput['entities'] } = {}): IdentityInput => ({
  principal: { ...principal, ...change.who }, envelope: { ...envelope, ...named(change.envelope?.callId ?? 'c'), ...change.envelope }, tool: tool(change.tool), args: change.args ?? { order: 'O-1', amount: 5 },
  bound: change.bound ?? {}, entities: change.entities ?? [],
});
const operationOf = (given: IdentityInput): string => operationId(identify(given).operation, 1);

/** Texts made of what could be taken for a separator, so that fields run into each other if anything lets them. */
const text = fc.array(fc.constantFrom('a', 'b', ':', '/', '|', ',', '"', '[', ']', '\\', '\n', '\u0001', ' ', '1', 'session', 'intent'), { maxLength: 4 }).map((parts) => parts.join(''));
const some = text.map((given) => given || 'x');
const json = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<JsonObject[string]>;
const args = fc.record({ order: fc.oneof(text, json), amount: fc.oneof(fc.integer(), text) }) as unknown as fc.Arbitrary<JsonObject>;
const meaning = fc.record({
  tenant: text, principal: text, subject: text, session: some, intent: text, tool: text, args, occurrence: fc.integer({ min: 1, max: 3 }), key: fc.option(text),
});
type Meaning = typeof meaning extends fc.Arbitrary<infer T> ? T : never;
const inputOf = (m: Meaning): IdentityInput => input({
  who: { tenant: m.tenant, id: m.principal }, tool: { name: m.tool }, args: m.args,
  envelope: { subject: m.subject, sessionId: m.session, intentId: m.intent, occurrence: m.occurrence, idempotencyKey: m.key },
});

const sorted = (value: unknown): unknown =>
  Array.isArray(value) ? value.map(sorted)
    : value !== null && typeof value === 'object' ? Object.entries(value).map(([name, member]) => [name, sorted(member)]).sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))
      : Object.is(value, -0) ? 0 : value;
/** What was meant, spelt out independently of the code under test. */
const meant = (m: Meaning): string => JSON.stringify([
  m.tenant, m.principal, m.subject,
  ...(m.key === null ? ['effect', m.intent === '' ? ['session', m.session] : ['intent', m.intent], m.tool, sorted(m.args), m.occurrence] : ['key', m.key]),
]);
const shuffled = (value: JsonObject): JsonObject => Object.fromEntries(Object.entries(value).reverse());

describe('the identity of an effect', () => {
  it('two calls share an operation id exactly when they mean the same', () => {
    fc.assert(fc.property(meaning, meaning, fc.constantFrom<(keyof Meaning)[]>(...(Object.keys({ tenant: 0, principal: 0, subject: 0, session: 0, intent: 0, tool: 0, args: 0, occurrence: 0, key: 0 }) as (keyof Meaning)[]).map((name) => [name]), [], ['tenant', 'principal'], ['principal', 'subject'], ['session', 'intent'], ['subject', 'tool']), (one, other, taken) => {
      const two = { ...one, ...Object.fromEntries(taken.map((name) => [name, other[name]])) } as Meaning;
      expect(operationOf(inputOf(one)) === operationOf(inputOf(two))).toBe(meant(one) === meant(two));
    }), { numRuns: 3_000 });
  });

  it('moving text over the border between two neighbouring fields makes another identity', () => {
    fc.assert(fc.property(some, some, some, (a, b, c) => {
      const pairs: [(x: string, y: string) => IdentityInput][] = [
        [(x, y) => input({ who: { tenant: x, id: y } })], [(x, y) => input({ who: { id: x }, envelope: { subject: y } })], [(x, y) => input({ envelope: { subject: x, sessionId: y } })],
        [(x, y) => input({ envelope: { intentId: x }, tool: { name: y } })], [(x, y) => input({ envelope: { subject: x, idempotencyKey: y } })],
      ];
      for (const [make] of pairs) expect(operationOf(make(a + b, c))).not.toBe(operationOf(make(a, b + c)));
    }), { numRuns: 300 });
  });

  it('does not hang on call ids, turn ids, arguments beyond the identity, bound values, or the order of keys', () => {
    fc.assert(fc.property(text, text, text, text, json, args, fc.boolean(), (callA, callB, turnA, turnB, extra, given, minted) => {
      const one = input({ envelope: { callId: callA, turnId: turnA }, args: given });
      const two = input({ envelope: { callId: callB, turnId: turnB, callIdMinted: minted, expectedVersion: '7', purpose: 'p' }, args: { note: extra, ...shuffled(given) }, bound: { customer: extra } });
      expect(operationOf(one)).toBe(operationOf(two));
      expect(identify(one).guardKeys).toEqual(identify(two).guardKeys);
    }), { numRuns: 300 });
  });

  it('is the same in another process and another year: the id is fixed', () => {
    expect(operationOf(input())).toBe(operationOf(input()));
    expect(operationOf(input())).toMatch(/^op_[0-9a-hj-km-np-tv-z]{32}$/);
  });

  it('a scope is what the contract says: `tenant` takes nothing in, `session` no intent, `call` the call itself', () => {
    const scoped = (scope: ToolPlan['identity']['scope'], change: Partial<Envelope>): string =>
      operationOf(input({ tool: { identity: { scope, arguments: null, windowMs: null } }, envelope: change }));
    fc.assert(fc.property(some, some, (a, b) => {
      fc.pre(a !== b);
      expect(scoped('tenant', { sessionId: a, intentId: a })).toBe(scoped('tenant', { sessionId: b, intentId: b }));
      expect(scoped('session', { sessionId: a, intentId: a })).toBe(scoped('session', { sessionId: a, intentId: b }));
      expect(scoped('session', { sessionId: a })).not.toBe(scoped('session', { sessionId: b }));
      expect(scoped('intent', { sessionId: a, intentId: a })).toBe(scoped('intent', { sessionId: b, intentId: a }));
      expect(scoped('intent', { sessionId: a, intentId: '' })).not.toBe(scoped('intent', { sessionId: b, intentId: '' }));
      expect(scoped('intent', { sessionId: a, intentId: '' })).not.toBe(scoped('intent', { sessionId: b, intentId: a }));
      expect(scoped('call', { callId: a })).not.toBe(scoped('call', { callId: b }));
      expect(scoped('call', { turnId: a })).not.toBe(scoped('call', { turnId: b }));
    }), { numRuns: 200 });
  });
});

describe('generations', () => {
  it('each has an id of its own, over all identities', () => {
    const identity = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes));
    fc.assert(fc.property(identity, identity, fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 50 }), (a, b, m, n) => {
      expect(operationId(a, m) === operationId(b, n)).toBe(a.equals(b) && m === n);
      expect(operationId(a, m) === operationId(a, n)).toBe(m === n);
    }), { numRuns: 500 });
  });
});

describe('the identity of a call', () => {
  const call = fc.record({ tenant: text, id: text, subject: text, session: text, turn: text, call: text });
  const callKey = (given: { tenant: string; id: string; subject: string; session: string; turn: string; call: string }): string =>
    identify(input({ who: { tenant: given.tenant, id: given.id }, envelope: { subject: given.subject, sessionId: given.session, turnId: given.turn, callId: given.call } })).callKey?.toString('hex') ?? '';

  it('is tenant, principal, subject, session, turn and call id, each whole and apart', () => {
    fc.assert(fc.property(call, call, (a, b) => {
      expect(callKey(a) === callKey(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      for (const name of Object.keys(a) as (keyof typeof a)[]) expect(callKey(a) === callKey({ ...a, [name]: b[name] })).toBe(a[name] === b[name]);
    }), { numRuns: 500 });
  });

  it('is the operation identity of a read, which holds no guard', () => {
    const read = identify(input({ tool: { effect: 'none' } }));
    expect(read).toMatchObject({ callKey: null, guardKeys: [], ownKey: false });
    expect(read.operation).toEqual(identify(input()).callKey);
  });

  it('its fingerprint is tool, arguments and bound values, in any order of keys, and nothing of the envelope', () => {
    fc.assert(fc.property(args, args, text, text, (given, others, a, b) => {
      const print = (change: Parameters<typeof input>[0]): string => identify(input(change)).fingerprint.toString('hex');
      expect(print({ args: given })).toBe(print({ args: shuffled(given), envelope: { sessionId: a, turnId: b, intentId: a, callId: b, occurrence: 2, purpose: a } }));
      expect(print({ args: given }) === print({ args: others })).toBe(JSON.stringify(sorted(given)) === JSON.stringify(sorted(others)));
      expect(print({ args: given, tool: { name: a } }) === print({ args: given, tool: { name: b } })).toBe(a === b);
      expect(print({ bound: { x: a } }) === print({ bound: { x: b } })).toBe(a === b);
    }), { numRuns: 300 });
  });
});

describe('guard keys', () => {
  const order = { name: 'order' } as unknown as NonNullable<ToolPlan['entity']>;
  const acted = (type: string, id: string): ActedEntity => ({ plan: type === 'order' ? order : { ...order, name: type }, id, key: `${type}:${id}`, governed: false });

  it('of a tool with an entity are the entities, whoever asks, whatever the scope, key or occurrence', () => {
    fc.assert(fc.property(meaning, meaning, some, some, (a, b, one, two) => {
      const on = (m: Meaning): readonly string[] => {
        const given = inputOf(m);
        return identify({ ...given, tool: { ...given.tool, entity: order }, entities: [acted('order', one), acted('stock', two), acted('order', one)] }).guardKeys;
      };
      expect(on(a)).toEqual(on(b));
      expect(on(a)).toEqual([`order:${one}`, `stock:${two}`].sort());
    }), { numRuns: 200 });
  });

  it('of one without are caller, tool and identity arguments, so that fresh ids, keys and repeats cannot slip past an open effect', () => {
    fc.assert(fc.property(meaning, meaning, (a, b) => {
      const guard = (m: Meaning): string => identify(inputOf(m)).guardKeys.join();
      const who = ({ tenant, principal: id, subject, tool: name, args: given }: Meaning): string => JSON.stringify([tenant, id, subject, name, sorted(given)]);
      expect(guard(a)).toBe(guard({ ...a, session: b.session, intent: b.intent, occurrence: b.occurrence, key: b.key }));
      expect(guard(a) === guard(b)).toBe(who(a) === who(b));
    }), { numRuns: 300 });
  });
});
