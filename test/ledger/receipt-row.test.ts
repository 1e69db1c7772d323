import { describe, expect, it } from 'vitest';
import { canonicalText, sha256 } from '../../src/canonical.js';
import type { Receipt } from '../../src/gate/ports.js';
import { receiptRow } from '../../src/ledger/receipt-row.js';
import { newReceiptId, timeOfId } from '../../src/receipt-id.js';

const receipt = (body: Receipt['body']): Receipt => ({
  id: newReceiptId(), kind: 'effect', tenant: 'acme', operationId: 'op_1', sessionId: 's', intentId: '', principal: 'p', tool: 't', disposition: 'executed',
  outcome: 'committed', body,
});

/** A receipt is evidence: its text must be whole, and say of itself what its columns say. */
describe('a receipt as it is stored', () => {
  it('is the canonical text of itself, under the digest of exactly that text', () => {
    const given = receipt({ b: 1, a: { z: [1, 'é'], y: null } });
    const row = receiptRow(given);
    const body = row.body as string;
    expect(canonicalText(JSON.parse(body))).toBe(body);
    expect(row.digest).toBe(`\\x${sha256(body).toString('hex')}`);
    expect(row.recorded_at).toBe(timeOfId(given.id).toISOString());
  });

  it('has a digest that nobody can guess the content by, once it is erased', () => {
    const given = receipt({ amount: 1 });
    expect(receiptRow(given).digest).not.toBe(receiptRow(given).digest);
  });

  it('lets nothing in its body pass for another receipt, tenant or outcome', () => {
    const given = receipt({ id: 'rcp_other', tenant: 'globex', outcome: 'rejected', kind: 'decision', recorded_at: '1970-01-01T00:00:00.000Z', extra: true });
    const body = receiptRow(given).body as string;
    expect(JSON.parse(body)).toMatchObject({ id: given.id, tenant: 'acme', outcome: 'committed', kind: 'effect', extra: true });
    expect(JSON.parse(body).recorded_at).not.toContain('1970');
  });

  it('is stored whatever text an upstream sent, so that storing never changes an outcome', () => {
    const body = receiptRow(receipt({ lone: 'a\ud800b', nul: 'a\0b', ['k\udc00']: [{ '\ud800': '\udfff' }] })).body as string;
    expect(JSON.parse(body)).toMatchObject({ lone: 'a\ufffdb', nul: 'a\0b', 'k\ufffd': [{ '\ufffd': '\ufffd' }] });
    expect(body.includes('\0')).toBe(false);
  });
});
