/**
 * Verification of an export, line by line and offline: that nothing in the chain was edited, removed, inserted or put in another order since
 * a checkpoint signed it. Stops at the first thing that is wrong, since nothing after it rests on anything.
 */
import { digestOfText } from '../canonical.js';
import type { Json } from '../model.js';
import { parseStrict } from '../strict-json.js';
import type { VerificationKeys } from './keys.js';
import { type CheckpointLine, checkpointText, type EndLine, endText, type ExportLine, type ReceiptLine } from './lines.js';
import { type Head, type Header, linkOf, origin } from './link.js';

/** The first broken link. */
export interface Broken { sequence: number; what: string }

/** What was known of the chain before: an earlier checkpoint, so that a chain that was cut back or signed anew is found too. */
export type Known = Head;

export interface Summary {
  tenant: string | null;
  receipts: number;
  erased: number;
  checkpoints: number;
  head: Head;
  covered: { sequence: number; link: string; key: string; signedAt: string } | null;
}

/** Over the interval at which checkpoints are signed: clocks of replicas, and one round of the sealer. */
const graceMs = 60_000;

export class Verification {
  private tenant: string | null = null;
  private head: Head;
  private receipts = 0;
  private erased = 0;
  private checkpoints = 0;
  private covered: Summary['covered'] = null;
  /** Of the receipts after the last checkpoint, when the earliest was recorded. */
  private uncoveredSince = Number.POSITIVE_INFINITY;
  private end: EndLine | null = null;
  private readonly erasedAt: Spans = [];
  /** What notices in the chain say is erased. */
  private readonly noticed: Spans = [];
  private readonly known: Map<number, Known>;

  /** @param after where the lines begin; the beginning of the chain where nothing is said */
  constructor(private readonly keys: VerificationKeys, known: readonly Known[] = [], after: Head = origin) {
    this.head = after;
    this.known = new Map(known.map((one) => [one.sequence, one]));
  }

  accept(line: ExportLine): Broken | null {
    if (this.end !== null) return this.at(this.head.sequence + 1, 'there are lines after the end of the export: something was inserted');
    switch (line.type) {
      case 'receipt': return this.receipt(line);
      case 'gone': return this.outOfPlace(line.sequence) ?? this.at(line.sequence, `the receipt \`${line.receipt_id}\` was removed: the chain has its link, and it is not there`);
      case 'checkpoint': return this.checkpoint(line);
      case 'end': return this.ended(line);
    }
  }

  /** Once all lines were accepted. */
  finish(): Broken | null {
    const { sequence } = this.head;
    if (this.end === null) return this.at(sequence + 1, 'the export is not whole: it has no line that ends it. Run `callgate receipts export` again; it goes on where it stopped');
    for (const known of this.known.values()) {
      if (known.sequence > sequence) return this.at(sequence + 1, `the chain ends at ${sequence}, although sequence ${known.sequence} was known before: what came after was removed`);
    }
    const unsaid = firstOutside(this.erasedAt, this.noticed);
    if (unsaid !== null) return this.at(unsaid, 'its content was erased, and no notice in the chain says so');
    const { exported_at, checkpoint_interval_ms } = this.end.end;
    if (this.uncoveredSince < Date.parse(exported_at) - checkpoint_interval_ms - graceMs) {
      const from = (this.covered?.sequence ?? 0) + 1;
      return this.at(from, `no checkpoint covers the receipts from here to ${sequence}, although some were recorded at ${new Date(this.uncoveredSince).toISOString()}: `
        + 'a checkpoint was removed, or the gateway has no key and does not sign');
    }
    return null;
  }

  get summary(): Summary {
    const { tenant, receipts, erased, checkpoints, head, covered } = this;
    return { tenant, receipts, erased, checkpoints, head, covered };
  }

  private receipt({ header, link, body }: ReceiptLine): Broken | null {
    const { sequence, digest, id } = header;
    const misplaced = this.outOfPlace(sequence) ?? this.ofAnotherTenant(header.tenant, sequence);
    if (misplaced) return misplaced;
    if (header.previous !== this.head.link) {
      return this.at(sequence, `the receipt \`${id}\` does not follow on the one before it: something was inserted, removed or put in another order here`);
    }
    if (linkOf(header) !== link) return this.at(sequence, `the header of the receipt \`${id}\` was edited: it does not have the hash that the chain has`);
    if (body !== null && digestOfText(body) !== digest) return this.at(sequence, `the content of the receipt \`${id}\` was edited: it does not have the digest in its header`);
    if (body !== null && !agree(header, body)) return this.at(sequence, `the content of the receipt \`${id}\` is not that of its header`);
    const known = this.known.get(sequence);
    if (known && known.link !== link) return this.at(sequence, 'the chain has another link here than was known before: it was rewritten');
    this.head = { sequence, link };
    this.receipts++;
    if (body === null) this.noteErased(sequence);
    else if (header.kind === 'erasure') this.noticed.push(...spansIn(body).filter(([, last]) => last < sequence));
    this.uncoveredSince = Math.min(this.uncoveredSince, Date.parse(header.recorded_at));
    return null;
  }

  private noteErased(sequence: number): void {
    this.erased++;
    const last = this.erasedAt.at(-1);
    if (last && last[1] === sequence - 1) last[1] = sequence;
    else this.erasedAt.push([sequence, sequence]);
  }

  private outOfPlace(sequence: number): Broken | null {
    const next = this.head.sequence + 1;
    if (sequence === next) return null;
    if (sequence > next) return this.at(next, `${sequence - 1 === next ? `sequence ${next} is` : `sequences ${next} to ${sequence - 1} are`} missing: removed, or put elsewhere`);
    return this.at(next, `sequence ${sequence} comes again, or too late: inserted, or put in another order`);
  }

  private ofAnotherTenant(tenant: string, sequence: number): Broken | null {
    this.tenant ??= tenant;
    return tenant === this.tenant ? null : this.at(sequence, 'it belongs to another tenant than the receipts before it');
  }

  private checkpoint({ checkpoint, signature }: CheckpointLine): Broken | null {
    const { sequence, key, link, signed_at, tenant } = checkpoint;
    const other = this.ofAnotherTenant(tenant, sequence);
    if (other) return other;
    const forged = this.signed('checkpoint', sequence, key, checkpointText(checkpoint), signature, signed_at);
    if (forged) return forged;
    if (sequence > this.head.sequence) return this.at(this.head.sequence + 1, `a checkpoint signs sequence ${sequence}, and the chain ends before it: receipts were removed`);
    if (sequence < this.head.sequence) return this.at(sequence, 'a checkpoint stands behind later receipts: put in another order');
    if (link !== this.head.link) return this.at(sequence, 'the checkpoint signs another link than the chain has here: it, or what is before it, was rewritten without the key');
    this.checkpoints++;
    this.covered = { sequence, link, key, signedAt: signed_at };
    this.uncoveredSince = Number.POSITIVE_INFINITY;
    return null;
  }

  private ended(line: EndLine): Broken | null {
    const { end, signature } = line;
    const other = this.ofAnotherTenant(end.tenant, end.sequence);
    if (other) return other;
    if (end.sequence > this.head.sequence) return this.at(this.head.sequence + 1, `the export went to sequence ${end.sequence}, and ends before it: removed`);
    if (end.sequence < this.head.sequence || end.link !== this.head.link) return this.at(this.head.sequence, 'the export ended elsewhere than this file does: something was inserted or rewritten');
    // Else whoever had the file in his hands could write it from its first line, and say of everything that it is too new for a checkpoint.
    if (end.key === null) return this.at((this.covered?.sequence ?? 0) + 1, 'nothing signs the receipts from here on: the end of the export has no signature, so the gateway had no key, or somebody else wrote it');
    const forged = this.signed('end of the export', end.sequence, end.key, endText(end), signature ?? '', end.exported_at);
    if (forged) return forged;
    this.end = line;
    return null;
  }

  private signed(what: string, sequence: number, key: string, text: string, signature: string, at: string): Broken | null {
    switch (this.keys.check(key, text, signature, at)) {
      case 'good': return null;
      case 'unknown_key': return this.at(sequence, `the ${what} is signed with the key \`${key}\`, which is not among the verification keys`);
      case 'not_valid_then': return this.at(sequence, `the ${what} is signed with the key \`${key}\` at ${at}, when that key was not valid`);
      case 'wrong_signature': return this.at(sequence, `the signature of the ${what} is wrong: it was edited, or not made with the key \`${key}\``);
    }
  }

  private at(sequence: number, what: string): Broken {
    return { sequence, what };
  }
}

/** That a body which has the right digest is that of this receipt, and not of another one. */
function agree(header: Header, body: string): boolean {
  const read = parseStrict(body, { maxDepth: 512 }, () => undefined);
  if (!read.ok || typeof read.value !== 'object' || read.value === null || Array.isArray(read.value)) return false;
  const { previous: _previous, sequence: _sequence, digest: _digest, ...repeated } = header;
  const content = read.value;
  return Object.entries(repeated).every(([name, value]) => content[name] === value);
}

/** From and to, both inclusive. */
type Spans = [number, number][];

function spansIn(notice: string): Spans {
  const { erased } = JSON.parse(notice) as { erased?: Json };
  return Array.isArray(erased) ? erased.filter((span): span is [number, number] => Array.isArray(span) && span.length === 2 && span.every(isCount)) : [];
}

/** @param inner in order. */
function firstOutside(inner: Spans, outer: Spans): number | null {
  const covers = [...outer].sort(([a], [b]) => a - b);
  let n = 0;
  let covered = -1;
  for (const [first, last] of inner) {
    for (let at = first; at <= last; at = covered + 1) {
      for (let cover = covers[n]; cover && cover[0] <= at; cover = covers[++n]) covered = Math.max(covered, cover[1]);
      if (covered < at) return at;
    }
  }
  return null;
}

/** One line of a file. Null: it is none of an export. */
export function readLine(text: string): ExportLine | null {
  const read = parseStrict(text, { maxDepth: 4 });
  return read.ok && isLine(read.value) ? (read.value as unknown as ExportLine) : null;
}

const headerShape: Record<keyof Header, (value: Json | undefined) => boolean> = {
  digest: isText, disposition: isText, id: isText, intent_id: isText, kind: isText, operation_id: isTextOrNull, outcome: isTextOrNull, previous: isText,
  principal: isText, recorded_at: isInstant, sequence: isCount, session_id: isText, tenant: isText, tool: isText,
};
const shapes: Record<ExportLine['type'], Record<string, (value: Json | undefined) => boolean>> = {
  receipt: { header: (value) => has(value, headerShape), link: isText, body: isTextOrNull },
  gone: { sequence: isCount, receipt_id: isText, link: isText },
  checkpoint: { checkpoint: (value) => has(value, { key: isText, link: isText, sequence: isCount, signed_at: isInstant, tenant: isText }), signature: isText },
  end: {
    end: (value) => has(value, { checkpoint_interval_ms: isCount, exported_at: isInstant, key: isTextOrNull, link: isText, sequence: isCount, tenant: isText }),
    signature: isTextOrNull,
  },
};

function isLine(value: Json): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { type, ...members } = value;
  const shape = typeof type === 'string' && Object.hasOwn(shapes, type) ? shapes[type as ExportLine['type']] : undefined;
  return shape !== undefined && has(members, shape);
}

/** Exactly these members: one that nobody checks could tell a reader something that nobody signed. */
function has(value: Json | undefined, shape: Record<string, (value: Json | undefined) => boolean>): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.keys(value).every((name) => Object.hasOwn(shape, name)) && Object.entries(shape).every(([name, fits]) => fits(value[name]));
}

function isText(value: Json | undefined): boolean {
  return typeof value === 'string';
}
function isTextOrNull(value: Json | undefined): boolean {
  return value === null || typeof value === 'string';
}
function isCount(value: Json | undefined): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
function isInstant(value: Json | undefined): boolean {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value));
}
