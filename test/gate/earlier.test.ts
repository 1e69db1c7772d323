import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ToolPlan } from '../../src/contract/plan.js';
import { isRefusal } from '../../src/errors.js';
import type { PermittedCall } from '../../src/gate/calls.js';
import { earlierAnswer, type FoundEarlier, isFinal, type Standing } from '../../src/gate/earlier.js';
import { operationId } from '../../src/gate/identity.js';
import type { Operation } from '../../src/gate/ports.js';
import { type OperationState, operationStates, type Outcome } from '../../src/model.js';

/** From what the ledger found to what follows, over every state: nothing that may have had an effect is ever begun anew. */
const identity = Buffer.alloc(32, 1);
const ours = Buffer.alloc(32, 2);
const others = Buffer.alloc(32, 3);
const callKey = Buffer.alloc(32, 4);

const proposal = (change: { ownKey?: boolean; effect?: 'none' | 'write'; windowMs?: number | null; callId?: string; minted?: boolean } = {}): PermittedCall => ({
  envelope: { callId: change.callId ?? 'c-1', callIdMinted: change.minted ?? false },
  tool: { effect: change.effect ?? 'write', entity: null, lasts: [], identity: { windowMs: change.windowMs ?? null } } as unknown as ToolPlan,
  identity: { callKey: change.effect === 'none' ? null : callKey, fingerprint: ours, operation: identity, ownKey: change.ownKey ?? false, entities: [], guardKeys: [], entity: null },
}) as unknown as PermittedCall;

const operation = (change: Partial<Operation> = {}): Operation => ({
  id: 'op_1', identity, generation: 1, upstreamKey: 'op_1', state: 'committed', outcome: 'committed', fingerprint: ours, callId: 'c-1', clock: { sinceCreated: 1_000 }, ...change,
}) as Operation;
const found = (change: Partial<FoundEarlier> = {}): FoundEarlier => ({ call: null, current: null, seenVersion: null, untrusted: false, guardEpochs: [], guarded: false, kept: [], session: null, reading: null, readBefore: null, repeated: null, ...change });
const standsFor = (given: Operation, fingerprint = ours): FoundEarlier['call'] => ({ fingerprint, operationId: given.id, operation: given });

const withoutEffect: OperationState[] = ['rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned'];
const held = operationStates.filter((state) => !withoutEffect.includes(state));
const conflict = expect.objectContaining({ refused: 'ID_CONFLICT' });

describe('what an earlier operation means for a proposal', () => {
  it.each(held)('%s: an equal one is never begun anew, by call id or by identity, whatever the generation', (state) => {
    fc.assert(fc.property(fc.integer({ min: 1, max: 9 }), fc.boolean(), fc.boolean(), fc.boolean(), (generation, byCall, byIdentity, ownKey) => {
      fc.pre(byCall || byIdentity);
      const known = operation({ state, generation });
      const answer = earlierAnswer(proposal({ ownKey }), found({ call: byCall ? standsFor(known) : null, current: byIdentity ? known : null }));
      expect(answer).toMatchObject({ kind: ['committed', 'review', 'parked'].includes(state) ? 'answered' : 'open', operation: known });
    }));
  });

  it.each(held)('%s: its call id stands for it, so other arguments conflict', (state) => {
    expect(earlierAnswer(proposal(), found({ call: standsFor(operation({ state }), others) }))).toEqual(conflict);
  });

  it.each(withoutEffect)('%s: frees the identity for the next generation, and the call id for other arguments', (state) => {
    const known = operation({ state, outcome: 'rejected', generation: 4 });
    const next = earlierAnswer(proposal(), found({ call: standsFor(known), current: known }));
    expect(next).toMatchObject({ kind: 'fresh', call: { generation: 5, previousOperation: 'op_1' } });
    expect(earlierAnswer(proposal(), found({ call: standsFor(known, others) }))).toMatchObject({ kind: 'fresh', call: { generation: 1, previousOperation: 'op_1' } });
  });

  it.each<[Outcome, boolean]>([['not_committed', true], ['rejected', false]])('after %s the upstream key %s kept', (outcome, kept) => {
    const known = operation({ state: 'rejected', outcome, generation: 2, upstreamKey: 'op_first' });
    const next = earlierAnswer(proposal(), found({ current: known }));
    if (isRefusal(next) || next.kind !== 'fresh') throw new Error('not fresh');
    expect(next.call.upstreamKey).toBe(kept ? 'op_first' : operationId(identity, 3));
  });

  it('an application’s key stands for one call whatever became of it', () => {
    for (const state of operationStates) {
      expect(earlierAnswer(proposal({ ownKey: true }), found({ current: operation({ state, fingerprint: others }) }))).toEqual(conflict);
    }
  });

  it('nor is a call id that was claimed for the key in the same moment told what another call under it became', () => {
    for (const state of held) {
      const known = operation({ state, fingerprint: others });
      expect(earlierAnswer(proposal({ ownKey: true }), found({ call: standsFor(known), current: known }))).toEqual(conflict);
    }
  });

  it('without a key, an equal effect with other words (arguments beyond the identity) is the same effect', () => {
    expect(earlierAnswer(proposal({ callId: 'c-2' }), found({ current: operation({ fingerprint: others }) }))).toMatchObject({ kind: 'answered', as: 'duplicate' });
  });

  it('a call id that answered a read is taken for a write, and the other way round', () => {
    expect(earlierAnswer(proposal(), found({ readBefore: 'committed' }))).toEqual(conflict);
    expect(earlierAnswer(proposal({ effect: 'none' }), found({ call: standsFor(operation(), others) }))).toEqual(conflict);
    expect(earlierAnswer(proposal({ effect: 'none' }), found({ current: operation({ fingerprint: others }) }))).toEqual(conflict);
  });

  it('says `duplicate` exactly when another call id asks, and binds a call id once, never a minted one', () => {
    const known = operation({ callId: 'c-1' });
    expect(earlierAnswer(proposal({ callId: 'c-1' }), found({ call: standsFor(known), current: known }))).toMatchObject({ as: 'again', unbound: null });
    expect(earlierAnswer(proposal({ callId: 'c-2' }), found({ call: standsFor(known), current: known }))).toMatchObject({ as: 'duplicate', unbound: null });
    expect(earlierAnswer(proposal({ callId: 'c-2' }), found({ current: known }))).toMatchObject({ as: 'duplicate', unbound: { callKey, previous: null } });
    expect(earlierAnswer(proposal({ callId: 'c-1' }), found({ current: known }))).toMatchObject({ as: 'again', unbound: { callKey, previous: null } });
    expect(earlierAnswer(proposal({ callId: 'm', minted: true }), found({ current: known }))).toMatchObject({ as: 'duplicate', unbound: null });
    const ended = operation({ id: 'op_0', state: 'rejected', outcome: 'rejected' });
    expect(earlierAnswer(proposal({ callId: 'c-2' }), found({ call: standsFor(ended), current: known }))).toMatchObject({ unbound: { previous: 'op_0' } });
  });

  it('a call identity that was claimed in vain stands for nothing', () => {
    expect(earlierAnswer(proposal(), found({ call: { fingerprint: others, operationId: 'op_gone', operation: null } }))).toMatchObject({ kind: 'fresh', call: { previousOperation: 'op_gone' } });
  });

  it('a dedupe window lets only what has committed and is older give way, and never to the same call', () => {
    fc.assert(fc.property(fc.constantFrom(...held), fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 5_000 }), (state, age, windowMs) => {
      const known = operation({ state, clock: { sinceCreated: age } as Operation['clock'] });
      const next = earlierAnswer(proposal({ windowMs }), found({ current: known }));
      const gives = state === 'committed' && age > windowMs;
      expect(next).toMatchObject(gives ? { kind: 'fresh', call: { generation: 2, upstreamKey: operationId(identity, 2) } } : { operation: known });
      expect(earlierAnswer(proposal({ windowMs }), found({ current: known, call: standsFor(known) }))).toMatchObject({ operation: known });
    }));
  });
});

/** What is remembered is told again without asking: it may hold nothing that could still become something else. */
describe('what may be told again without asking the ledger', () => {
  const settled = (change: Partial<Operation> = {}, answer: object | null = { result: 1 }): Operation => operation({ verified: true, clock: { sinceCreated: 1_000, untilDue: null } as Operation['clock'], answer: answer as Operation['answer'], ...change });
  const standingOf = (given: Operation, change: Partial<Standing> = {}): Standing => ({ kind: 'answered', operation: given, as: 'again', unbound: null, ...change });
  const withTool = (change: object): PermittedCall => ({ ...proposal(), tool: { ...proposal().tool, ...change } }) as PermittedCall;

  it('is a committed answer, verified or with nothing owed, of a write and of a read', () => {
    expect(isFinal(proposal(), standingOf(settled()))).toBe(true);
    expect(isFinal(proposal(), standingOf(settled({ verified: false })))).toBe(true);
    expect(isFinal(proposal({ effect: 'none' }), standingOf(settled({ verified: false }), { as: 'duplicate' }))).toBe(true);
  });

  it.each(operationStates.filter((state) => state !== 'committed'))('is none that is %s', (state) => {
    expect(isFinal(proposal(), standingOf(settled({ state })))).toBe(false);
  });

  it.each<[string, PermittedCall, Standing]>([
    ['whose read-back is owed', proposal(), standingOf(settled({ verified: false }, { result: 1, verifyWith: { tool: 'x', arguments: {} } }))],
    ['that recovery will look at', proposal(), standingOf(settled({ clock: { sinceCreated: 1, untilDue: 5_000 } as Operation['clock'] }))],
    ['that was erased', proposal(), standingOf(settled({}, null))],
    ['that can be taken back, or was', proposal(), standingOf(settled({}, { result: 1, compensate: { tool: 'x', arguments: {} } }))],
    ['that its service can contradict by itself', withTool({ async: { callback: {} } }), standingOf(settled())],
    ['that its call id does not stand for yet', proposal(), standingOf(settled(), { unbound: { callKey, previous: null } })],
    ['that nothing but its meaning stands for', proposal({ minted: true }), standingOf(settled())],
    ['told in the place of a read that was made too often', proposal({ effect: 'none' }), standingOf(settled(), { repeatedRead: true })],
  ])('is none %s', (_, call, standing) => expect(isFinal(call, standing)).toBe(false));
});
