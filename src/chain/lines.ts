/** The lines of an export (NDJSON): the chain of one tenant in the order of its sequence, each checkpoint after the receipt that it signs. */
import { canonicalText } from '../canonical.js';
import type { Header } from './link.js';

/** `body` is the canonical text whose SHA-256 is `header.digest`; null: erased. */
export interface ReceiptLine { type: 'receipt'; header: Header; link: string; body: string | null }

/** The chain has a link for a receipt that is not there. */
export interface GoneLine { type: 'gone'; sequence: number; receipt_id: string; link: string }

export type Checkpoint = {
  /** The id of the key that signed. */
  key: string;
  link: string;
  sequence: number;
  /** Database time. */
  signed_at: string;
  tenant: string;
};
/** `signature`: Ed25519 over the canonical form of the checkpoint with `type`, base64. */
export interface CheckpointLine { type: 'checkpoint'; checkpoint: Checkpoint; signature: string }

export type End = {
  /** How often the gateway signs checkpoints: what is not covered by one and much older than this is suspicious. */
  checkpoint_interval_ms: number;
  exported_at: string;
  /** Null: the gateway has no key, and this line no signature. */
  key: string | null;
  link: string;
  sequence: number;
  tenant: string;
};
/** The last line of an export that was not cut short. */
export interface EndLine { type: 'end'; end: End; signature: string | null }

export type ExportLine = ReceiptLine | GoneLine | CheckpointLine | EndLine;

/** What is signed of a checkpoint. The type keeps a signature of one kind from being shown as one of another. */
export function checkpointText(checkpoint: Checkpoint): string {
  return canonicalText({ ...checkpoint, type: 'callgate/checkpoint/1' });
}

export function endText(end: End): string {
  return canonicalText({ ...end, type: 'callgate/export-end/1' });
}
