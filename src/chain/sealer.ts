/**
 * Gives committed receipts their sequence and link, and signs how far the chain of each tenant has come. One replica at a time does it, under a
 * lease whose fence every write names: one that was paused and goes on finds that it holds nothing any more. Nothing here is on the path of a
 * call, and no call waits for it.
 *
 * What it has sealed it remembers: a chain that was cut back or rewritten in the database is found with the next receipt, and a replica that
 * takes over goes through all that no checkpoint covers before it signs anything.
 */
import { checkpointText, type Checkpoint, type ExportLine } from './lines.js';
import { type Head, linkAfter, type Linked, origin, type Unlinked } from './link.js';
import type { KeyRing, VerificationKeys } from './keys.js';
import { Verification } from './verify.js';

/** How far a look goes: the database's own snapshot of which transactions it could see, as text. */
export type Snapshot = string;

export interface Lease { owner: string; fence: string }

/** A receipt without a link, and the place after which the next page of them begins. */
export interface Unsealed { receipt: Unlinked; place: string[] }

export interface TenantHead extends Head { tenant: string; checkpoint: SignedCheckpoint | null }

export interface SignedCheckpoint extends Checkpoint { signature: string }

export interface ChainStore {
  /** Takes the lease, or renews it and remembers that all that `sealed` could see is sealed. Null: another replica holds it. */
  hold(lease: Lease | null, owner: string, leaseMs: number, sealed: Snapshot | null): Promise<{ lease: Lease; sealed: Snapshot | null } | null>;
  letGo(lease: Lease): Promise<void>;
  /** Where every chain ends, in pages by tenant. */
  heads(afterTenant: string, limit: number): Promise<TenantHead[]>;
  look(): Promise<{ upTo: Snapshot; now: string }>;
  /** Of what `upTo` could see and `sealed` could not, what has no link yet. */
  unsealed(sealed: Snapshot | null, upTo: Snapshot, after: string[] | null, limit: number): Promise<Unsealed[]>;
  /** All or, where the lease is gone, nothing. @returns tenants whose chain does not end in the database where `after` has it: of those nothing was written */
  append(lease: Lease, after: readonly (Head & { tenant: string })[], linked: readonly Linked[]): Promise<{ held: boolean; broken: string[] }>;
  sign(lease: Lease, checkpoints: readonly SignedCheckpoint[]): Promise<{ held: boolean; broken: string[] }>;
}

/** Reads a chain as an export has it. */
export interface ChainReader {
  /** Lines after that sequence, with the checkpoints on it and behind it; `done`: there are no more. */
  page(tenant: string, after: number, limit: number): Promise<{ lines: ExportLine[]; done: boolean }>;
}

export interface SealerOptions {
  store: ChainStore;
  reader: ChainReader;
  /** Null: receipts are chained and nothing is signed. */
  keys: KeyRing | null;
  owner: string;
  leaseMs: number;
  intervalMs: number;
  checkpointMs: number;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void; error(fields: object, message: string): void };
  sealed(receipts: number): void;
  /** How many chains are known not to be whole. */
  broken(chains: number): void;
}

/** In one statement: few enough that their hashes hold up nobody's call. */
const atOnce = 500;

const never = Number.NEGATIVE_INFINITY;

interface Known { head: Head; covered: number; signedAt: number }

class LeaseLost extends Error {}

export class Sealer {
  private lease: Lease | null = null;
  private renewAt = 0;
  private sealed: Snapshot | null = null;
  private readonly chains = new Map<string, Known>();
  private readonly broken = new Set<string>();
  private round: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private stopped = false;

  constructor(private readonly options: SealerOptions) {}

  start(): void {
    if (this.stopped) return;
    this.round = this.once()
      .catch((error: unknown) => this.options.log.warn({ err: error }, 'receipts could not be sealed; it is tried again'))
      .then(() => {
        if (!this.stopped) this.timer = setTimeout(() => this.start(), this.options.intervalMs * (0.75 + Math.random() / 2));
      });
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.round;
    const { lease } = this;
    this.lease = null;
    if (lease) await this.options.store.letGo(lease).catch(() => undefined); // it runs out by itself
  }

  /** One look: everything that was committed before it is sealed after it, if the lease is ours. */
  async once(): Promise<void> {
    try {
      await this.sealAll();
    } catch (error) {
      this.lease = null; // what it holds is not certain any more: it takes over from itself, or from another
      if (!(error instanceof LeaseLost)) throw error;
    }
  }

  private async sealAll(): Promise<void> {
    if (!(await this.hold())) return;
    const fence = this.lease?.fence;
    const { upTo, now } = await this.options.store.look();
    let after: string[] | null = null;
    for (;;) {
      const page: Unsealed[] = await this.options.store.unsealed(this.sealed, upTo, after, atOnce);
      await this.append(page.map(({ receipt }) => receipt));
      if (page.length < atOnce) break;
      after = page.at(-1)?.place ?? null;
      if (this.stopped || !(await this.hold()) || this.lease?.fence !== fence) return;
    }
    this.sealed = upTo;
    await this.sign(now);
  }

  private async hold(): Promise<boolean> {
    const renewed = await this.renew();
    if (renewed?.fresh) await this.takeOver(renewed.sealed);
    return renewed !== null;
  }

  /** While a chain is not whole its receipts wait: what is sealed is not noted, and whoever takes over next looks at them again. */
  private async renew(): Promise<{ fresh: boolean; sealed: Snapshot | null } | null> {
    if (this.lease && performance.now() < this.renewAt) return { fresh: false, sealed: null };
    const { store, owner, leaseMs } = this.options;
    const asked = performance.now();
    const held = await store.hold(this.lease, owner, leaseMs, this.broken.size === 0 ? this.sealed : null);
    const fresh = held?.lease.fence !== this.lease?.fence;
    this.lease = held?.lease ?? null;
    this.renewAt = asked + leaseMs / 3;
    return held && { fresh, sealed: held.sealed };
  }

  private async takeOver(sealed: Snapshot | null): Promise<void> {
    this.sealed = sealed;
    this.chains.clear();
    this.broken.clear();
    this.options.broken(0);
    for (let last = ''; ;) {
      const page = await this.options.store.heads(last, atOnce);
      for (const head of page) await this.adopt(head);
      if (page.length < atOnce) return;
      last = page.at(-1)?.tenant ?? '';
    }
  }

  private async adopt({ tenant, sequence, link, checkpoint }: TenantHead): Promise<void> {
    this.chains.set(tenant, { head: { sequence, link }, covered: checkpoint?.sequence ?? 0, signedAt: never });
    const wrong = this.options.keys && await this.inspect(tenant, this.options.keys, checkpoint, { sequence, link });
    if (wrong) this.alarm(tenant, wrong);
  }

  /** The last checkpoint, and link by link all that came after it. */
  private async inspect(tenant: string, keys: VerificationKeys, checkpoint: SignedCheckpoint | null, head: Head): Promise<string | null> {
    if (checkpoint) {
      const { signature, ...signed } = checkpoint;
      const verdict = keys.check(checkpoint.key, checkpointText(signed), signature, checkpoint.signed_at);
      if (verdict !== 'good') return `its last checkpoint, at sequence ${checkpoint.sequence}, does not hold: ${verdict}`;
      if (checkpoint.sequence > head.sequence) return `it ends at ${head.sequence}, and sequence ${checkpoint.sequence} was signed: receipts were removed`;
    }
    const from: Head = checkpoint ? { sequence: checkpoint.sequence, link: checkpoint.link } : origin;
    const verification = new Verification(keys, [], from);
    for (let after = from.sequence; ;) {
      const { lines, done } = await this.options.reader.page(tenant, after, atOnce);
      for (const line of lines) {
        // The checkpoint that it begins with was looked at above, and has no receipt before it here.
        const broken = line.type === 'checkpoint' && line.checkpoint.sequence === from.sequence && line.checkpoint.link === from.link ? null : verification.accept(line);
        if (broken) return `at sequence ${broken.sequence}, ${broken.what}`;
      }
      if (done) return null;
      after = verification.summary.head.sequence;
      if ((await this.renew())?.fresh !== false) throw new LeaseLost(); // whoever has it now goes through all of it again
    }
  }

  private async append(receipts: readonly Unlinked[]): Promise<void> {
    const before = new Map<string, Head>();
    const heads = new Map<string, Head>();
    const linked = receipts.filter(({ tenant }) => !this.broken.has(tenant)).map((receipt) => {
      const head = heads.get(receipt.tenant) ?? this.chainOf(receipt.tenant).head;
      if (!before.has(receipt.tenant)) before.set(receipt.tenant, head);
      const next = linkAfter(head, receipt);
      heads.set(receipt.tenant, { sequence: next.header.sequence, link: next.link });
      return next;
    });
    if (linked.length === 0) return;
    const { broken } = this.held(await this.options.store.append(this.lease as Lease, [...before].map(([tenant, head]) => ({ tenant, ...head })), linked));
    for (const tenant of broken) this.alarm(tenant, 'it does not end where it was left: it was changed in the database');
    for (const [tenant, head] of heads) if (!this.broken.has(tenant)) this.chainOf(tenant).head = head;
    this.options.sealed(linked.filter(({ header }) => !this.broken.has(header.tenant)).length);
  }

  /** A tenant's checkpoint is due an interval after its last one, if anything was sealed since. */
  private async sign(now: string): Promise<void> {
    const signer = this.options.keys?.signerAt(new Date(now));
    if (!signer) return;
    const due = [...this.chains].filter(([tenant, { head, covered, signedAt }]) =>
      head.sequence > covered && !this.broken.has(tenant) && performance.now() - signedAt >= this.options.checkpointMs);
    for (let n = 0; n < due.length; n += atOnce) {
      const checkpoints = due.slice(n, n + atOnce).map(([tenant, { head }]): SignedCheckpoint => {
        const checkpoint: Checkpoint = { key: signer.key, link: head.link, sequence: head.sequence, signed_at: now, tenant };
        return { ...checkpoint, signature: signer.sign(checkpointText(checkpoint)) };
      });
      const { broken } = this.held(await this.options.store.sign(this.lease as Lease, checkpoints));
      for (const tenant of broken) this.alarm(tenant, 'it does not end where it was left: it was changed in the database');
      for (const { tenant, sequence, link, key } of checkpoints) {
        if (this.broken.has(tenant)) continue;
        Object.assign(this.chainOf(tenant), { covered: sequence, signedAt: performance.now() });
        // Whoever keeps the log has what no later change of the database can take back.
        this.options.log.info({ tenant, sequence, link, key }, 'receipts up to here are signed');
      }
    }
  }

  private held<T extends { held: boolean }>(result: T): T {
    if (!result.held) throw new LeaseLost();
    return result;
  }

  private chainOf(tenant: string): Known {
    const known = this.chains.get(tenant) ?? { head: origin, covered: 0, signedAt: never };
    this.chains.set(tenant, known);
    return known;
  }

  private alarm(tenant: string, what: string): void {
    if (this.broken.has(tenant)) return;
    this.broken.add(tenant);
    this.options.broken(this.broken.size);
    this.options.log.error({ tenant }, `the chain over the receipts of a tenant is not whole: ${what}. Nothing more of it is sealed or signed; see docs/operations.md`);
  }
}
