/** docs/diagnostics.md: of each code what it is, why it matters and how to mend it, with a contract that has it and the same one mended. */
import { compileFolder } from '../../src/contract/compile.js';
import { type Diagnostic, type DiagnosticCode, diagnosticTexts, severityOf } from '../../src/contract/diagnostics.js';
import { catalogueOf } from '../contract/fixture.js';
import { commands, type Example, examples } from '../contract/broken.js';

const families: Record<string, string> = {
  CG0: 'Reading and shape', CG1: 'Preconditions resolve', CG2: 'Effects are named', CG3: 'Errors map', CG4: 'Ambiguity resolves', CG5: 'Authority is mechanical', CG6: 'Lints', CG9: 'Left open by an import',
};

export function diagnosticsPage(): string {
  const shown = new Map<string, string>(examples().map((example) => [example.code, ofText(example)]));
  const codes = Object.keys(diagnosticTexts) as DiagnosticCode[];
  const sections = Object.entries(families).map(([family, title]) =>
    [`## ${title}\n`, ...codes.filter((code) => code.startsWith(family)).map((code) => section(code, shown.get(code) ?? ofCommand(code)))].join('\n'));
  return [
    '# Diagnostics\n\n<!-- Generated from src/contract/codes.ts and test/contract/broken.ts; `npx vitest run test/docs -u` writes it again. -->\n',
    'What `callgate check` reports, and the gateway at its start: all of it in one run, each with file, line and column. Codes are stable.\n',
    'Under each: what is told of a contract that has it, the lines that have it (`-`) and the same mended (`+`).\n',
    ...sections,
  ].join('\n');
}

function section(code: DiagnosticCode, example: string): string {
  const { what, mend, why } = diagnosticTexts[code];
  const kind = severityOf(code) === 'warning' ? ' A warning.' : '';
  return `### ${code}\n\n**${what}.** ${why}${kind}\n\n${mend}\n\n${example}\n`;
}

function ofText({ code, file, failing, mended, folder }: Example): string {
  const result = compileFolder(folder(failing), {});
  const found = ('diagnostics' in result ? result.diagnostics : result.warnings).find((one) => one.code === code);
  if (!found) throw new Error(`the example of ${code} does not have it`);
  return `${told(found)}\n\n\`\`\`diff\n# ${file}\n${changes(failing.split('\n'), mended.split('\n')).join('\n')}\n\`\`\``;
}

function ofCommand(code: DiagnosticCode): string {
  const { failing, mended, folder, found: among = () => [] } = commands[code]!;
  const result = compileFolder(folder(), {});
  const found = 'diagnostics' in result ? result.diagnostics : among(catalogueOf(result));
  return `${told({ ...found[0]!, message: found[0]!.message.replace(/`\/[^`]*`/, '`EMPTY`') })}\n\n\`\`\`diff\n- ${failing}\n+ ${mended}\n\`\`\``;
}

function told({ file, line, column, severity, code, message }: Diagnostic): string {
  return `\`\`\`text\n${file}:${line}:${column}: ${severity} ${code}: ${message.length > 300 ? `${message.slice(0, 300)}…` : message}\n\`\`\``;
}

/** Lines of both, by their longest common subsequence, with a line around each change. */
function changes(failing: readonly string[], mended: readonly string[]): string[] {
  const common: number[][] = Array.from({ length: failing.length + 1 }, () => new Array<number>(mended.length + 1).fill(0));
  for (let i = failing.length - 1; i >= 0; i--)
    for (let j = mended.length - 1; j >= 0; j--)
      common[i]![j] = failing[i] === mended[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
  const all: string[] = [];
  for (let [i, j] = [0, 0]; i < failing.length || j < mended.length; ) {
    const lost = i < failing.length && (j === mended.length || common[i + 1]![j]! >= common[i]![j + 1]!);
    if (i < failing.length && failing[i] === mended[j]) {
      all.push(` ${failing[i]}`);
      [i, j] = [i + 1, j + 1];
    } else all.push(lost ? `-${short(failing[i++]!)}` : `+${short(mended[j++]!)}`);
  }
  const near = (at: number): boolean => [at - 1, at, at + 1].some((each) => /^[-+]/.test(all[each] ?? ''));
  return all.flatMap((line, at) => (near(at) ? [short(line)] : near(at - 1) ? ['@@'] : [])).filter((line, at, lines) => line !== '@@' || at < lines.length - 1);
}

function short(line: string): string {
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}
