import { type Diagnostic, diagnosticHelp, diagnosticTexts, type DiagnosticCode, severityOf } from './diagnostics.js';

/**
 * SARIF 2.1.0, as code scanners and editors read it.
 * @param diagnostics `file` relative to the root of what is scanned, with forward slashes
 */
export function sarifLog(diagnostics: readonly Diagnostic[], version: string): object {
  const codes = [...new Set(diagnostics.map(({ code }) => code))].sort();
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'callgate', version, rules: codes.map(rule) } },
        columnKind: 'utf16CodeUnits',
        results: diagnostics.map((found) => result(found, codes)),
      },
    ],
  };
}

function rule(code: DiagnosticCode): object {
  return { id: code, shortDescription: { text: diagnosticTexts[code].what }, help: { text: diagnosticHelp[code] }, defaultConfiguration: { level: severityOf(code) } };
}

function result({ file, line, column, code, severity, message, help }: Diagnostic, codes: readonly DiagnosticCode[]): object {
  const uri = file.split('/').map(encodeURIComponent).join('/');
  return {
    ruleId: code,
    ruleIndex: codes.indexOf(code),
    level: severity,
    message: { text: `${message}. ${help}` },
    locations: [{ physicalLocation: { artifactLocation: { uri }, region: { startLine: line, startColumn: column } } }],
  };
}
