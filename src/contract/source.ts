/** The governed source: parsed files and policy texts, with the places that diagnostics point at. */
import type { Json, JsonObject } from '../model.js';
import { canonicalText } from '../canonical.js';
import type { Position } from './diagnostics.js';
import type { Path } from './pointer.js';

export interface SourceFile {
  /** Relative to the contracts folder, with forward slashes. */
  readonly file: string;
  readonly document: Json;
  /** Where the value at this path begins, or its character at `offset`; the nearest enclosing one when the path leads nowhere. */
  valuePosition(path: Path, offset?: number): Position;
  /** Where the last name of this path is written. */
  keyPosition(path: Path): Position;
}

export interface PolicyText {
  readonly file: string;
  readonly text: string;
}

export interface ContractSource {
  readonly files: readonly SourceFile[];
  readonly policies: readonly PolicyText[];
}

/** Comments, order of members and environment are no part of it, so it is the same text on every machine. */
export function canonicalSource(source: ContractSource): string {
  return canonicalText({
    callgate: 1,
    files: source.files.map(({ file, document }) => ({ file, document })),
    policies: source.policies.map(({ file, text }) => ({ file, text })),
  });
}

const start: Position = { line: 1, column: 1 };

/** Reads back what `canonicalSource` wrote; places are lost. */
export function readCanonicalSource(text: string): ContractSource {
  const { files, policies } = JSON.parse(text) as { files: JsonObject[]; policies: { file: string; text: string }[] };
  return {
    files: files.map(({ file, document }) => ({
      file: String(file),
      document: document ?? null,
      valuePosition: () => start,
      keyPosition: () => start,
    })),
    policies,
  };
}
