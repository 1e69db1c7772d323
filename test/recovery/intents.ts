/** Intents and transitions as the gate hands them to the ledger, without a gate. */
import { createHash, randomUUID } from 'node:crypto';
import type { Intent, Receipt, Transition } from '../../src/gate/ports.js';
import { newReceiptId } from '../../src/receipt-id.js';

const sha = (text: string): Buffer => createHash('sha256').update(text).digest();

export function receipt(operationId: string | null, kind: Receipt['kind'] = 'decision', change: Partial<Receipt> = {}): Receipt {
  return {
    id: newReceiptId(), kind, tenant: 'acme', operationId, sessionId: 's', intentId: '', principal: 'p', tool: 't',
    disposition: 'executed', outcome: null, body: {}, ...change,
  };
}

export function intent(name: string, guardKeys: string[], change: { principal?: string; epochs?: number[]; quota?: number } = {}): Intent {
  const id = `op_${name}`;
  const principal = change.principal ?? 'p';
  const decision = receipt(id);
  return {
    operation: {
      tenant: 'acme', id, identity: sha(name), generation: 1, upstreamKey: id, effect: 'write', tool: 't', contractVersion: '1.0.0', contractDigest: 'sha256:0',
      catalogueDigest: 'sha256:0', principal, subject: '', purpose: '', sessionId: 's', turnId: '', intentId: '', callId: name, fingerprint: sha(`f/${name}`),
      decisionReceipt: decision.id,
      dossier: { request: null, args: {}, bound: {}, observed: {}, baseline: { entity: null, state: null, never: {} }, resource: null },
    },
    attemptId: randomUUID(), writeId: randomUUID(), owner: 'test', sendWindowMs: 1000, leaseMs: 60_000, reconcileDeadlineMs: 60_000,
    afterCommitted: false, guardKeys: [...guardKeys].sort(), guardEpochs: change.epochs ?? guardKeys.map(() => 0), budget: { scope: `principal:${principal}`, quota: change.quota ?? 1_000_000 },
    alias: { tenant: 'acme', callKey: sha(`c/${name}`), fingerprint: sha(`f/${name}`), operationId: id, previous: null }, receipt: decision,
  };
}

export function settlement(name: string, change: Partial<Transition> = {}): Transition {
  const effect = receipt(`op_${name}`, 'effect');
  return {
    tenant: 'acme', operationId: `op_${name}`, writeId: randomUUID(), from: ['sending'], fence: 1, to: 'committed', outcome: 'committed', verified: true,
    effectSeen: true, answer: { result: null }, settle: true, receipt: effect, effectReceipt: effect.id, ...change,
  };
}
