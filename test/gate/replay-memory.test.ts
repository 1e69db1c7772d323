import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CallIdentities } from '../../src/gate/calls.js';
import type { Operation } from '../../src/gate/ports.js';
import { ReplayMemory } from '../../src/gate/replay-memory.js';

/** What is remembered of answers must stay small, and must be gone in time: else a storm of retries fills the process, and what was erased is told for ever. */
const identities = (n: number, change: { fingerprint?: number; operation?: number; read?: boolean } = {}): CallIdentities => ({
  callKey: change.read ? null : Buffer.alloc(32, n), fingerprint: Buffer.alloc(32, change.fingerprint ?? n), operation: Buffer.alloc(32, change.operation ?? n),
}) as unknown as CallIdentities;
const operation = (id: string, text = ''): Operation => ({ id, answer: { result: text } }) as unknown as Operation;

describe('answers that were asked for again', () => {
  beforeEach(() => { vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }); });
  afterEach(() => { vi.useRealTimers(); });

  it('are recalled by all that identifies a call, and by nothing less', () => {
    const memory = new ReplayMemory();
    const mine = operation('op_1');
    memory.keep(identities(1), mine, performance.now());
    expect(memory.recall(identities(1))).toBe(mine);
    for (const other of [identities(2, { fingerprint: 1, operation: 1 }), identities(1, { fingerprint: 2 }), identities(1, { operation: 2 }), identities(1, { read: true, operation: 2 })]) {
      expect(memory.recall(other)).toBeUndefined();
    }
  });

  it('are recalled until their time is over, which began when the ledger was asked, and however often they are asked for', () => {
    const memory = new ReplayMemory({ entries: 10, bytes: 10_000, keptMs: 1_000 });
    memory.keep(identities(1), operation('op_1'), performance.now() - 400);
    vi.advanceTimersByTime(599);
    expect(memory.recall(identities(1))).toBeDefined();
    vi.advanceTimersByTime(1);
    expect(memory.recall(identities(1))).toBeUndefined();
  });

  it('are out of memory soon after, also where nobody asks for anything any more', () => {
    const memory = new ReplayMemory({ entries: 10, bytes: 10_000, keptMs: 1_000 });
    memory.keep(identities(1), operation('op_1'), performance.now());
    vi.advanceTimersByTime(500);
    memory.keep(identities(2), operation('op_2'), performance.now());
    vi.advanceTimersByTime(500);
    expect(memory.size).toBe(1);
    vi.advanceTimersByTime(1_000);
    expect(memory.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are bounded in number and in bytes: the oldest gives way, and what is too large for the others is not kept', () => {
    const few = new ReplayMemory({ entries: 3, bytes: 1e9, keptMs: 1_000 });
    for (let n = 0; n < 5; n++) few.keep(identities(n), operation(`op_${n}`), performance.now());
    expect([0, 1, 2, 3, 4].map((n) => few.recall(identities(n))?.id)).toEqual([undefined, undefined, 'op_2', 'op_3', 'op_4']);
    const small = new ReplayMemory({ entries: 1_000, bytes: 32_000, keptMs: 1_000 });
    for (let n = 0; n < 100; n++) small.keep(identities(n), operation(`op_${n}`, 'x'.repeat(900)), performance.now());
    expect(small.size).toBeGreaterThan(12);
    expect(small.size).toBeLessThan(18);
    small.keep(identities(200), operation('op_large', 'x'.repeat(1_100)), performance.now());
    expect(small.recall(identities(200))).toBeUndefined();
    expect(small.recall(identities(99))).toBeDefined();
  });

  it('counts one that is kept again once', () => {
    const memory = new ReplayMemory({ entries: 10, bytes: 32_000, keptMs: 1_000 });
    memory.keep(identities(1), operation('op_1'), performance.now());
    for (let n = 0; n < 100; n++) memory.keep(identities(2), operation('op_2', 'x'.repeat(900)), performance.now());
    expect([memory.size, memory.recall(identities(1))?.id]).toEqual([2, 'op_1']);
  });
});
