/** The contracts of a real domain, held against what real agents did in it and what its own environment answered. */
import { beforeAll, describe, expect, test } from 'vitest';
import { readRetailData, type Store } from '../../examples/tau-retail/domain/store.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import type { JsonObject } from '../../src/model.js';
import { answer, decide, type Verdict } from './decide.js';
import { attempt, type Compiled, compiled, freshStore, worldOf } from './edition.js';
import {
  answerOf, argumentsOf, type Conversation, conversations, dataFolder, isInjected, isKnownFault, place, recorded, type RecordedCall, toTheCent,
} from './recording.js';

interface Decided {
  call: RecordedCall;
  verdict: Verdict;
  /** When somebody else had been identified. */
  ofAnother: Verdict;
  result: unknown;
}
interface Looked {
  call: RecordedCall;
  seen: unknown;
  /** Rests on an answer that tau2's environment got wrong before. */
  afterFault: boolean;
}

const writes: Decided[] = [];
const reads: Looked[] = [];

if (recorded) {
  describe('recorded conversations of the tau retail domain', () => {
    beforeAll(() => {
      const data = readRetailData(dataFolder);
      const editions = { tau1: compiled('tau1'), tau2: compiled('tau2') };
      for (const conversation of conversations()) {
        const contracts = editions[conversation.edition];
        replay(contracts, freshStore(contracts, data), conversation);
      }
      report();
    });

    test('every recorded write is decided by the contracts as the benchmark decided it', () => {
      expect(writes.length).toBe(226);
      const differences = writes.filter(({ call, verdict }) => verdict.accepted === call.rejected);
      expect(differences.map(({ call, verdict }) => `${place(call)}: ${call.error ?? 'accepted'} <> ${JSON.stringify(verdict)}`)).toEqual([]);
    });

    test('each refusal is for the reason that the benchmark gave, before anything would be sent', () => {
      const refusals = writes.flatMap(({ call, verdict }) => (verdict.accepted ? [] : [`${call.error?.toLowerCase()}: ${verdict.stage} ${verdict.code}`]));
      expect(new Set(refusals)).toEqual(
        new Set([
          'error: the number of items to be exchanged should match: relations LENGTHS_DIFFER',
          'error: the new item id should be different from the old item id: relations SAME_ITEM',
          'error: non-delivered order cannot be exchanged: transition return requested',
          'error: non-delivered order cannot be returned: transition exchange requested',
          'error: non-delivered order cannot be returned: transition return requested',
          'error: non-pending order cannot be modified: transition pending (item modified)',
        ]),
      );
    });

    test('every accepted write gives the recorded answer, but for the fault of tau2 that its page names', () => {
      const differing = writes.filter(({ call, result }) => !call.rejected && !same(result, answerOf(call))).map(({ call }) => call);
      expect(differing.filter((call) => !isKnownFault(call)).map(place)).toEqual([]);
      expect(differing.map(place), 'the one that the recording holds').toHaveLength(1);
    });

    test('every recorded read gives the recorded answer, the injected failures and what follows from the fault of tau2 aside', () => {
      const differing = reads.filter(({ call, seen, afterFault }) => {
        if (isInjected(call) || afterFault) return false;
        return call.rejected ? seen !== undefined : !same(seen, answerOf(call));
      });
      expect(differing.map(({ call }) => place(call))).toEqual([]);
      expect(reads.length + writes.length).toBe(1231);
    });

    test('no write is allowed once somebody else was identified, whatever state the order is in', () => {
      const reached = writes.filter(({ ofAnother }) => ofAnother.accepted || !['arguments', 'relations', 'policy'].includes(ofAnother.stage));
      expect(reached.map(({ call }) => place(call))).toEqual([]);
      expect(writes.filter(({ ofAnother }) => !ofAnother.accepted && ofAnother.stage === 'policy').length).toBeGreaterThan(200);
    });
  });
} else {
  test('the recordings are not beside this checkout (../shared/data/tau-retail), so no decision of a real agent is held against the contracts', () => {
    expect(recorded).toBe(false);
  });
}

function replay(contracts: Compiled, store: Store, { calls }: Conversation): void {
  let subject: string | null = null;
  const faulty = new Set<unknown>();
  for (const call of calls) {
    const args = argumentsOf(call);
    const plan = contracts.tool(call.name);
    if (call.write) {
      const verdict = decide(plan, worldOf(contracts, store, subject), args);
      const ofAnother = decide(plan, worldOf(contracts, store, 'mia_garcia_0000'), args);
      writes.push({ call, verdict, ofAnother, result: call.rejected ? null : performed(plan, store, args) });
      if (isKnownFault(call)) faulty.add(args['order_id']);
    } else {
      const seen = answer(plan, worldOf(contracts, store, subject), args);
      reads.push({ call, seen, afterFault: faulty.has(args['order_id']) });
      if (call.name.startsWith('find_user_id_') && typeof seen === 'string') subject = seen;
    }
  }
}

/** By the store itself, so that the next call meets the world as the benchmark left it. */
function performed(plan: ToolPlan, store: Store, args: JsonObject): unknown {
  const outcome = attempt(store, plan.name, args);
  return 'result' in outcome ? plan.admitResult(outcome.result)?.result : outcome;
}

function same(seen: unknown, wanted: unknown): boolean {
  try {
    expect(toTheCent(seen)).toEqual(toTheCent(wanted));
    return true;
  } catch {
    return false;
  }
}

function report(): void {
  const counts = new Map<string, number>();
  for (const { call, verdict } of writes) {
    const outcome = verdict.accepted ? 'accepted' : `refused by ${verdict.stage}: ${verdict.code}`;
    const row = `${call.src} ${call.name} ${outcome}`;
    counts.set(row, (counts.get(row) ?? 0) + 1);
  }
  const refused = writes.filter(({ verdict }) => !verdict.accepted).length;
  const rows = [...counts].sort().map(([row, count]) => `${String(count).padStart(4)} ${row}`);
  const explained = writes.filter(({ call, result }) => !call.rejected && !same(result, answerOf(call))).map(({ call }) => `  explained ${place(call)}: ${call.args}`);
  console.log([`${writes.length} writes, ${writes.length - refused} accepted, ${refused} refused`, ...rows, ...explained].join('\n'));
}
