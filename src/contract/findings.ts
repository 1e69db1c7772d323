import { diagnostic, type Diagnostic, type DiagnosticCode } from './diagnostics.js';
import type { Path } from './pointer.js';
import type { SourceFile } from './source.js';

/** Collects everything that is wrong, so that one run reports all of it. */
export class Findings {
  readonly list: Diagnostic[] = [];

  /** @param offset of the character within the text at this path */
  value(file: SourceFile, path: Path, code: DiagnosticCode, message: string, offset = 0): void {
    this.list.push(diagnostic(file.file, file.valuePosition(path, offset), code, message));
  }

  /** At the name rather than at the value: for members that should not be there, and for what is missing below a name. */
  key(file: SourceFile, path: Path, code: DiagnosticCode, message: string): void {
    this.list.push(diagnostic(file.file, file.keyPosition(path), code, message));
  }
}
