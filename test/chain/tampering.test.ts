import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { canonicalText, sha256 } from '../../src/canonical.js';
import { addKey, readKeyRing } from '../../src/chain/keys.js';
import { checkpointText, type EndLine } from '../../src/chain/lines.js';
import { type Head, type Header, linkAfter, origin, type Unlinked } from '../../src/chain/link.js';
import type { Sealer } from '../../src/chain/sealer.js';
import type { Broken } from '../../src/chain/verify.js';
import { type Chains, openChains, receipt, ring, verifyLines } from './chains.js';

let chains: Chains;
let sealer: Sealer;
beforeAll(async () => {
  chains = await openChains();
  sealer = chains.sealer('one');
});
afterAll(() => chains.close());

let tenants = 0;
/** A chain of its own, sealed and signed in as many rounds as there are groups; of every other one each link is kept with the one before it, as the version before kept it. */
async function ledger(groups: readonly number[]): Promise<{ tenant: string; receipts: number }> {
  const tenant = `t-${++tenants}`;
  await db('update receipt_packing set links = $1', [tenants % 2 === 0]);
  let n = 0;
  for (const size of groups) {
    await chains.write(Array.from({ length: size }, () => receipt(tenant, n++)));
    await sealer.once();
  }
  return { tenant, receipts: n };
}

const db = (text: string, values: unknown[]) => chains.db.query(text, values);
const idAt = async (tenant: string, sequence: number): Promise<string> =>
  (await db('select receipt_id from receipt_chain where tenant = $1 and sequence = $2', [tenant, sequence])).rows[0].receipt_id as string;

/** Everything after a sequence anew, link by link, as somebody who knows the format and has no key would. */
async function relink(tenant: string, from: number, ids: readonly string[]): Promise<Head[]> {
  const { rows: [before] } = await db('select link from receipt_chain where tenant = $1 and sequence = $2', [tenant, from - 1]);
  let head: Head = before ? { sequence: from - 1, link: `sha256:${before.link.toString('hex')}` } : origin;
  await db('delete from receipt_chain where tenant = $1 and sequence >= $2', [tenant, from]);
  const heads: Head[] = [];
  for (const id of ids) {
    const { rows: [row] } = await db(`select 'sha256:' || encode(digest, 'hex') as digest, disposition, id, intent_id, kind, operation_id, outcome, principal,
      to_char(recorded_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as recorded_at, session_id, tenant, tool from receipts where tenant = $1 and id = $2`, [tenant, id]);
    const next = linkAfter(head, row as Unlinked);
    await db('insert into receipt_chain values ($1, $2, $3, $4, $5)', [tenant, next.header.sequence, id, bytes(head.link), bytes(next.link)]);
    head = { sequence: next.header.sequence, link: next.link };
    heads.push(head);
  }
  return heads;
}

const bytes = (link: string): Buffer => Buffer.from(link.slice(7), 'hex');
const idsFrom = async (tenant: string, from: number): Promise<string[]> =>
  (await db('select receipt_id from receipt_chain where tenant = $1 and sequence >= $2 order by sequence', [tenant, from])).rows.map((row) => row.receipt_id as string);

/** A body that says something else, with the digest that it has. */
async function editContent(tenant: string, id: string, amount: number): Promise<void> {
  const { rows: [row] } = await db('select body from receipts where tenant = $1 and id = $2', [tenant, id]);
  const body = canonicalText({ ...JSON.parse(row.body as string), arguments: { order_id: 'O-999', amount } });
  await db('update receipts set body = $3, digest = $4 where tenant = $1 and id = $2', [tenant, id, body, sha256(body)]);
}

async function insertForged(tenant: string): Promise<string> {
  const forged = receipt(tenant, 1_000_001);
  await chains.write([forged]);
  return forged.id;
}

type Tampering = (tenant: string, at: number, other: number, length: number) => Promise<void>;
const columns: Record<string, string> = {
  kind: `case kind when 'effect' then 'decision' else 'effect' end`, operation_id: `'op_x'`, session_id: `session_id || 'x'`, intent_id: `intent_id || 'x'`, principal: `'somebody'`,
  tool: `'get_order'`, disposition: `'denied'`, outcome: `case when outcome is null then 'rejected' end`, recorded_at: `recorded_at + interval '1 microsecond'`,
  digest: `sha256(digest)`, body: `replace(body, 'O-', 'P-')`,
};
/** Each leaves behind what it does not name, as an intruder who is in a hurry would; `rewrite…` are by one who is not. */
const tamperings: Record<string, Tampering> = {
  ...Object.fromEntries(Object.entries(columns).map(([column, value]): [string, Tampering] => [`edit ${column}`, async (tenant, at) => {
    await db(`update receipts set ${column} = ${value} where tenant = $1 and id = $2`, [tenant, await idAt(tenant, at)]);
  }])),
  'edit content and digest': async (tenant, at) => editContent(tenant, await idAt(tenant, at), 1),
  'erase a content': async (tenant, at) => void (await db('update receipts set body = null where tenant = $1 and id = $2', [tenant, await idAt(tenant, at)])),
  'edit a link': async (tenant, at) => void (await db('update receipt_chain set link = sha256(link) where tenant = $1 and sequence = $2', [tenant, at])),
  'edit what it says is before it': async (tenant, at) => void (await db('update receipt_chain set previous = sha256(link) where tenant = $1 and sequence = $2', [tenant, at])),
  'remove a receipt': async (tenant, at) => void (await db('delete from receipts where tenant = $1 and id = $2', [tenant, await idAt(tenant, at)])),
  'remove a receipt and its link': async (tenant, at) => {
    await db('delete from receipts where tenant = $1 and id = $2', [tenant, await idAt(tenant, at)]);
    await db('delete from receipt_chain where tenant = $1 and sequence = $2', [tenant, at]);
  },
  'remove a link': async (tenant, at) => void (await db('delete from receipt_chain where tenant = $1 and sequence = $2', [tenant, at])),
  'remove everything from there on, but not the checkpoints': async (tenant, at) => {
    await db('delete from receipts where tenant = $1 and id = any ($2)', [tenant, await idsFrom(tenant, at)]);
    await db('delete from receipt_chain where tenant = $1 and sequence >= $2', [tenant, at]);
  },
  'insert a receipt in the place of another': async (tenant, at) => {
    await db('update receipt_chain set receipt_id = $3 where tenant = $1 and sequence = $2', [tenant, at, await insertForged(tenant)]);
  },
  'insert at the end, with the right link': async (tenant, _at, _other, length) => void (await relink(tenant, length + 1, [await insertForged(tenant)])),
  'put two in each other’s place': async (tenant, at, other) => {
    const [first, second] = [await idAt(tenant, at), await idAt(tenant, other)];
    await db(`update receipt_chain set receipt_id = 'swap' where tenant = $1 and sequence = $2`, [tenant, at]);
    await db('update receipt_chain set receipt_id = $3 where tenant = $1 and sequence = $2', [tenant, other, first]);
    await db('update receipt_chain set receipt_id = $3 where tenant = $1 and sequence = $2', [tenant, at, second]);
  },
  'put two links in each other’s place': async (tenant, at, other) => {
    await db('update receipt_chain set sequence = -1 where tenant = $1 and sequence = $2', [tenant, at]);
    await db('update receipt_chain set sequence = $3 where tenant = $1 and sequence = $2', [tenant, other, at]);
    await db('update receipt_chain set sequence = $2 where tenant = $1 and sequence = -1', [tenant, other]);
  },
  'rewrite all after an edit': async (tenant, at) => {
    await editContent(tenant, await idAt(tenant, at), 2);
    await relink(tenant, at, await idsFrom(tenant, at));
  },
  'rewrite all after a removal': async (tenant, at) => {
    const [gone = '', ...rest] = await idsFrom(tenant, at);
    await db('delete from receipts where tenant = $1 and id = $2', [tenant, gone]);
    await relink(tenant, at, rest);
  },
  'rewrite all after an insertion': async (tenant, at) => void (await relink(tenant, at, [await insertForged(tenant), ...await idsFrom(tenant, at)])),
  'rewrite all in another order': async (tenant, at, other) => {
    const from = Math.min(at, other);
    const ids = await idsFrom(tenant, from);
    const to = Math.max(at, other) - from;
    [ids[0], ids[to]] = [ids[to] as string, ids[0] as string];
    await relink(tenant, from, ids);
  },
  'rewrite, and remove the checkpoints after it': async (tenant, at) => {
    await editContent(tenant, await idAt(tenant, at), 3);
    await relink(tenant, at, await idsFrom(tenant, at));
    await db('delete from receipt_checkpoints where tenant = $1 and sequence >= $2', [tenant, at]);
  },
  'rewrite, and give the checkpoints the new links': async (tenant, at) => {
    await editContent(tenant, await idAt(tenant, at), 4);
    for (const { sequence, link } of await relink(tenant, at, await idsFrom(tenant, at))) {
      await db('update receipt_checkpoints set link = $3 where tenant = $1 and sequence = $2', [tenant, sequence, bytes(link)]);
    }
  },
  'rewrite, and sign with a key of one’s own': async (tenant, at, other) => {
    await editContent(tenant, await idAt(tenant, at), 5);
    // under the id of the real key, or its own
    const signer = readKeyRing(JSON.stringify(addKey(null, other % 2 === 0 ? 'k-1' : 'mine', new Date(0), 0))).signerAt(new Date());
    for (const { sequence, link } of await relink(tenant, at, await idsFrom(tenant, at))) {
      const signed = { key: signer?.key ?? '', link, sequence, signed_at: new Date().toISOString(), tenant };
      await db('update receipt_checkpoints set link = $3, key_id = $4, signed_at = $5, signature = $6 where tenant = $1 and sequence = $2',
        [tenant, sequence, bytes(link), signed.key, signed.signed_at, Buffer.from(signer?.sign(checkpointText(signed)) ?? '', 'base64')]);
    }
  },
};

/** If one change of a stored receipt went unseen, no receipt would prove anything to anybody. */
describe('a change in the database is found by verification', () => {
  it.each(Object.entries(tamperings))('%s (property)', async (name, tamper) => {
    const shape = fc.record({ groups: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: 5 }), at: fc.nat(), other: fc.nat() });
    await fc.assert(fc.asyncProperty(shape, async ({ groups, at, other }) => {
      const { tenant, receipts } = await ledger(groups);
      expect(await chains.verify(tenant)).toMatchObject({ receipts, head: { sequence: receipts }, covered: { sequence: receipts } });
      const place = (at % receipts) + 1;
      const elsewhere = ((place - 1 + 1 + (other % (receipts - 1))) % receipts) + 1;
      await tamper(tenant, place, elsewhere, receipts);
      const found = await chains.verify(tenant);
      expect(found).toHaveProperty('what');
      const { sequence, what } = found as Broken;
      // Nothing before what was touched is blamed; where checkpoints were removed, all that they covered is in doubt.
      if (!what.startsWith('no checkpoint covers')) expect(sequence).toBeGreaterThanOrEqual(Math.min(place, elsewhere));
    }), { numRuns: name.startsWith('edit') ? 4 : 8 });
  }, 120_000);

  it('a chain cut back to an earlier checkpoint is whole in itself, and is found by whoever knew more', async () => {
    const { tenant, receipts } = await ledger([4, 3, 5]);
    const { covered } = await chains.verify(tenant) as { covered: Head };
    await tamperings['remove everything from there on, but not the checkpoints']?.(tenant, 8, 8, receipts);
    await db('delete from receipt_checkpoints where tenant = $1 and sequence >= 8', [tenant]);
    expect(await chains.verify(tenant)).toMatchObject({ receipts: 7, covered: { sequence: 7 } });
    expect(await chains.verify(tenant, [covered])).toMatchObject({ sequence: 8, what: expect.stringContaining('was known before') });
    // and by the sealer that wrote it, which signs nothing more of it
    await chains.write([receipt(tenant, 50)]);
    await sealer.once();
    expect(chains.alarms.at(-1)).toContain('was changed in the database');
    expect((await db('select max(sequence)::integer as n from receipt_chain where tenant = $1', [tenant])).rows).toEqual([{ n: 7 }]);
    const others = await ledger([2]);
    expect(await chains.verify(others.tenant)).toMatchObject({ receipts: 2 });
  });
});

/** A receipt that is a second old has no checkpoint yet; a verifier that calls that broken is one that nobody believes. */
describe('what is not covered by a checkpoint yet', () => {
  it('is told and is no fault while it is new, and is one when it is old', async () => {
    const own = await openChains();
    try {
      const slow = own.sealer('slow', { checkpointMs: 3_600_000 });
      for (const n of [1, 2]) {
        await own.write([receipt('t', n, Date.now())]);
        await slow.once();
      }
      expect(await own.verify('t')).toMatchObject({ receipts: 2, covered: { sequence: 1 } });
      await own.write([receipt('t', 3)]);
      await slow.once();
      expect(await own.verify('t')).toMatchObject({ sequence: 2, what: expect.stringContaining('no checkpoint covers') });
    } finally {
      await own.close();
    }
  });

  it('nor is anything proven to who has other keys, or keys that were not valid then', async () => {
    const { tenant } = await ledger([3]);
    const other = readKeyRing(JSON.stringify(addKey(null, 'k-2', new Date(0), 0)));
    expect(await chains.verify(tenant, [], other)).toMatchObject({ what: expect.stringContaining('not among the verification keys') });
    const expired = readKeyRing(JSON.stringify({ keys: ring.published.map((key) => ({ ...key, not_after: new Date(Date.now() - 60_000).toISOString() })) }));
    expect(await chains.verify(tenant, [], expired)).toMatchObject({ what: expect.stringContaining('when that key was not valid') });
  });
});

/** The file itself passes through many hands. */
describe('a change in the file of an export', () => {
  it('a file that somebody without a key wrote, from its first line or from its last checkpoint on, is nobody’s word', async () => {
    const { tenant } = await ledger([3]);
    const lines = await chains.lines(tenant);
    const end = JSON.parse(lines.at(-1) as string) as EndLine;
    const made = (from: string[], head: Head): string[] => {
      const { digest: _, previous: __, sequence: ___, ...told } = (JSON.parse(lines[0] as string) as { header: Header }).header;
      const body = canonicalText({ ...told, arguments: { amount: 1_000_000 } });
      const next = linkAfter(head, { ...told, digest: `sha256:${sha256(body).toString('hex')}` });
      const unsigned = { type: 'end', end: { ...end.end, key: null, sequence: next.header.sequence, link: next.link, exported_at: next.header.recorded_at, checkpoint_interval_ms: 3_600_000 }, signature: null };
      return [...from, JSON.stringify({ type: 'receipt', header: next.header, link: next.link, body }), JSON.stringify(unsigned)];
    };
    expect(verifyLines(made([], origin))).toMatchObject({ sequence: 1, what: expect.stringContaining('nothing signs the receipts from here on') });
    expect(verifyLines(made(lines.slice(0, -1), end.end))).toMatchObject({ sequence: 4, what: expect.stringContaining('nothing signs the receipts from here on') });
  });

  it('of any byte, any line left out, doubled or moved, is found (property)', async () => {
    const { tenant } = await ledger([3, 4, 2]);
    const lines = await chains.lines(tenant);
    expect(verifyLines(lines)).toMatchObject({ receipts: 9 });
    const change = fc.oneof(
      fc.record({ kind: fc.constant('drop' as const), at: fc.nat() }), fc.record({ kind: fc.constant('cut' as const), at: fc.nat() }),
      fc.record({ kind: fc.constant('swap' as const), at: fc.nat() }), fc.record({ kind: fc.constant('byte' as const), at: fc.nat(), place: fc.nat(), by: fc.integer({ min: 1, max: 9 }) }),
    );
    fc.assert(fc.property(change, (how) => {
      const at = how.at % lines.length;
      const changed = [...lines];
      if (how.kind === 'drop') changed.splice(at, 1);
      if (how.kind === 'cut') changed.length = at;
      if (how.kind === 'swap') changed.splice(at === lines.length - 1 ? at - 1 : at, 2, ...lines.slice(at === lines.length - 1 ? at - 1 : at).slice(0, 2).reverse());
      if (how.kind === 'byte') {
        const text = lines[at] as string;
        const place = how.place % text.length;
        const digit = /\d/.test(text[place] as string);
        changed[at] = text.slice(0, place) + (digit ? String((Number(text[place]) + how.by) % 10) : '~') + text.slice(place + 1);
        if (changed[at] === text) return;
      }
      // A checkpoint between two others proves nothing that the later one does not.
      const spare = how.kind === 'drop' && (lines[at] as string).startsWith('{"type":"checkpoint"') && at < lines.length - 2;
      expect('what' in verifyLines(changed)).toBe(!spare);
    }), { numRuns: 2_000 });
  }, 60_000);
});
