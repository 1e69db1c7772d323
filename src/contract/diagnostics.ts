/** What the compiler found, where, and how it is told. */
import { type CodeText, codes } from './codes.js';

export type DiagnosticCode = keyof typeof codes;

export const diagnosticTexts: Readonly<Record<DiagnosticCode, CodeText>> = codes;

/** How to mend it, why, and where there is more with an example. */
export const diagnosticHelp = Object.fromEntries(
  Object.entries(diagnosticTexts).map(([code, { mend, why }]) => [code, `${mend} ${why} More: docs/diagnostics.md#${code.toLowerCase()}`]),
) as Readonly<Record<DiagnosticCode, string>>;

export type Severity = 'error' | 'warning';
const warnings: ReadonlySet<DiagnosticCode> = new Set<DiagnosticCode>(['CG616', 'CG617']);

export function severityOf(code: DiagnosticCode): Severity {
  return warnings.has(code) ? 'warning' : 'error';
}

/** Line and column count from 1. `file` is relative to the contracts folder. */
export interface Diagnostic {
  file: string;
  line: number;
  column: number;
  code: DiagnosticCode;
  severity: Severity;
  message: string;
  help: string;
}

export interface Position {
  line: number;
  column: number;
}

export function diagnostic(file: string, at: Position, code: DiagnosticCode, message: string): Diagnostic {
  return { file, line: at.line, column: at.column, code, severity: severityOf(code), message, help: diagnosticHelp[code] };
}

/** In the order of the text; the same finding only once. */
export function sorted(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const seen = new Map(diagnostics.map((found) => [[found.file, found.line, found.column, found.code, found.message].join('\n'), found]));
  return [...seen.values()].sort(
    (a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : 0) || a.line - b.line || a.column - b.column || (a.code < b.code ? -1 : 1),
  );
}

/** For a terminal: place, message, source line with a caret, help. @param readText gives a file's text by its diagnostic name. */
export function formatDiagnostics(diagnostics: readonly Diagnostic[], readText: (file: string) => string | undefined): string {
  const texts = new Map<string, readonly string[]>();
  const linesOf = (file: string): readonly string[] => {
    const lines = texts.get(file) ?? readText(file)?.split(/\r?\n/) ?? [];
    texts.set(file, lines);
    return lines;
  };
  const blocks = sorted(diagnostics).map((found) => {
    const head = `${found.file}:${found.line}:${found.column}: ${found.severity} ${found.code}: ${found.message}`;
    const source = linesOf(found.file)[found.line - 1];
    const lines = [head];
    if (source !== undefined) lines.push(...excerpt(source, found.line, found.column));
    return [...lines, `  help: ${found.help}`].join('\n');
  });
  const counts = (['error', 'warning'] as const).flatMap((severity) => counted(diagnostics, severity));
  return diagnostics.length === 0 ? '' : `${blocks.join('\n\n')}\n\n${counts.join(' and ')}\n`;
}

function counted(diagnostics: readonly Diagnostic[], severity: Severity): string[] {
  const count = diagnostics.filter((found) => found.severity === severity).length;
  return count === 0 ? [] : [`${count} ${severity}${count === 1 ? '' : 's'}`];
}

const excerptColumns = 120;

function excerpt(source: string, line: number, column: number): string[] {
  const gutter = `  ${line} | `;
  const start = Math.max(0, column - 1 - Math.floor(excerptColumns * 0.75));
  const shown = source.slice(start, start + excerptColumns).replaceAll('\t', ' ');
  return [gutter + shown, `${' '.repeat(gutter.length - 2)}| ${' '.repeat(column - 1 - start)}^`];
}
