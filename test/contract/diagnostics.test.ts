/**
 * A contract that cannot be recovered must not compile, and its owner must be led to the line. Each code has a passing
 * fixture, the example itself, and a failing one: the example with one passage replaced.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { diagnosticHelp, diagnosticTexts, formatDiagnostics } from '../../src/contract/diagnostics.js';
import { readSourceText } from '../../src/contract/load.js';
import { broken, check, commands, examples, observedChange } from './broken.js';
import { folderWith, mutated, retailFolder, retailText } from './fixture.js';
import { cpuMs } from '../support/cpu.js';

describe('every code', () => {
  test.each(broken)('$code: $what is reported at its line', ({ code, from, to, at, says }) => {
    const { dir, text } = mutated(from, to);
    const found = diagnosticsOf(dir).filter((one) => one.code === code);
    expect(
      found.map(({ message }) => message),
      `no ${code}`,
    ).not.toEqual([]);
    const lines = found.map(({ line }) => text.split('\n')[line - 1]!);
    expect(
      lines.some((line) => line.includes(at)),
      lines.join('\n'),
    ).toBe(true);
    if (says) expect(found.map(({ message }) => message).join('\n')).toMatch(says);
  });

  test('CG011: an empty folder is no catalogue', () => {
    expect(diagnosticsOf(mkdtempSync(join(tmpdir(), 'callgate-empty-'))).map(({ code }) => code)).toEqual(['CG011']);
  });

  test('CG110: a change of what nothing holds still is reported at its line', () => {
    const [found] = diagnosticsOf(folderWith(observedChange).dir).filter(({ code }) => code === 'CG110');
    expect(observedChange.split('\n')[found!.line - 1]).toContain('other.refundable');
  });

  test('CG406: a read-back that holds both verdicts against what was observed before the call was sent needs no key', () => {
    const { dir } = mutated(
      'committed: result.status == "CANCELLED" && has(result.cancelled_by) && result.cancelled_by == operation.id\n      absent: result.status != "CANCELLED" || !has(result.cancelled_by) || result.cancelled_by != operation.id',
      'committed: result.status == "CANCELLED" && order.status == "PENDING"\n      absent: result.status == order.status',
    );
    expect(diagnosticsOf(dir)).toEqual([]);
  });

  test('CG601: a name that two files declare names both', () => {
    const { dir } = folderWith(retailText);
    writeFileSync(
      join(dir, 'second.yaml'),
      retailText.slice(0, retailText.indexOf('\n  quote_credit:')).replace(/entities:[\s\S]*?\ntools:/, 'tools:'),
    );
    const [found] = diagnosticsOf(dir);
    expect(found).toMatchObject({ code: 'CG601', file: 'second.yaml' });
    expect(found!.message).toContain('retail.yaml');
  });

  test('has a fixture that fails, and the same mended, which does not', () => {
    const covered = new Set<string>(Object.keys(commands));
    for (const { code, file, failing, mended, folder } of examples()) {
      covered.add(code);
      expect(diagnosticsOf(folder(failing)).filter((found) => found.code === code).map((found) => found.file), code).toContain(file);
      expect(diagnosticsOf(folder(mended)), code).toEqual([]);
    }
    expect(Object.keys(diagnosticHelp).filter((code) => !covered.has(code))).toEqual([]);
  }, 180_000);

  test('says what it is, how to mend it and why, and where there is more', () => {
    for (const [code, { what, mend, why }] of Object.entries(diagnosticTexts)) {
      expect(what, code).not.toMatch(/\.$/);
      for (const sentence of [mend, why]) expect(sentence, code).toMatch(/[.]$|CG/);
      expect(diagnosticHelp[code as keyof typeof diagnosticHelp]).toBe(`${mend} ${why} More: docs/diagnostics.md#${code.toLowerCase()}`);
    }
  });

  test('has the unbroken example as its passing fixture', () => {
    expect(compileFolder(retailFolder, {})).toMatchObject({ warnings: [] });
  });
});

describe('one run', () => {
  test('reports everything, in the order of the text: shape, expressions and release tests of several tools together', () => {
    const text = retailText
      .replace('version: 2.0.0', 'version: two')
      .replace('use_when: You want to tell', 'use_wen: You want to tell')
      .replace('args.amount <= order.refundable', 'args.amount <= order.refundible')
      .replace('      settle_after: 10s\n      lag: 0s\n', '')
      .replace('PENDING: { cancel_order', 'PENDNG: { cancel_order');
    const found = diagnosticsOf(folderWith(text).dir);
    expect(found.map(({ code }) => code)).toEqual(expect.arrayContaining(['CG609', 'CG608', 'CG004', 'CG101', 'CG402']));
    expect(found.map(({ line }) => line)).toEqual(found.map(({ line }) => line).sort((a, b) => a - b));
  });

  test('a tool with malformed members is not also reported as unknown where others refer to it', () => {
    const { dir } = mutated('purpose: Read one order', 'purpos: Read one order');
    expect(new Set(diagnosticsOf(dir).map(({ code }) => code))).toEqual(new Set(['CG004', 'CG005']));
  });
});

describe('formatDiagnostics', () => {
  test('shows place, message, the source line with a caret under the very character, and the mend', () => {
    const { dir, text } = mutated(check, 'check: args.amount <= ordr.refundable');
    const [found] = diagnosticsOf(dir).filter(({ code }) => code === 'CG101');
    const printed = formatDiagnostics([found!], (file) => readSourceText(dir, file));
    const [, source, caret] = printed.split('\n');
    expect(printed).toContain(`retail.yaml:${found!.line}:${found!.column}: error CG101`);
    expect(source!.slice(caret!.indexOf('^'))).toBe(text.split('\n')[found!.line - 1]!.slice(found!.column - 1));
    expect(source!.slice(caret!.indexOf('^'))).toMatch(/^ordr\.refundable/);
    expect(printed).toContain(`help: ${diagnosticHelp.CG101}`);
  });
});

describe('a broken contract', () => {
  test('is answered with diagnostics and never with a crash, whichever line is lost, doubled, indented or cut', () => {
    const lines = retailText.split('\n');
    const damage = [
      (_: string): string[] => [],
      (line: string) => [line, line],
      (line: string) => [`  ${line}`],
      (line: string) => [line.slice(0, Math.floor(line.length / 2))],
      (line: string) => [line.replace(/: .*/, ': 7')],
      (line: string) => [line.replace(/: .*/, ': {}')],
      (line: string) => [line.replace(/: .*/, ': [null]')],
    ];
    fc.assert(
      fc.property(fc.nat(lines.length - 1), fc.constantFrom(...damage), (at, apply) => {
        const { dir } = folderWith([...lines.slice(0, at), ...apply(lines[at]!), ...lines.slice(at + 1)].join('\n'));
        for (const { line, column, message } of diagnosticsOf(dir)) {
          expect(line).toBeGreaterThan(0);
          expect(column).toBeGreaterThan(0);
          expect(message).not.toMatch(/undefined|\[object/);
        }
      }),
      { numRuns: 60 },
    );
  }, 30_000);
});

describe('files', () => {
  test('an alias bomb is refused before it is built', () => {
    const bomb = [
      'a: &a [x,x,x,x,x,x,x,x,x]',
      ...'bcdefgh'.split('').map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[index]}`).join(',')}]`),
    ].join('\n');
    let codes: string[] = [];
    expect(cpuMs(() => { codes = diagnosticsOf(folderWith(bomb).dir).map(({ code }) => code); })).toBeLessThan(1000);
    expect(codes).toContain('CG003');
  });

  test('JSON is read like YAML, with the same digest', () => {
    const yaml = compileFolder(retailFolder, {});
    if (!('catalogue' in yaml)) throw new Error('the example does not compile');
    const { files } = JSON.parse(yaml.catalogue.source) as { files: { document: object }[] };
    const json = compileFolder(folderWith(JSON.stringify(files[0]!.document, null, 2)).dir, {});
    expect('catalogue' in json && json.catalogue.digest).toBe(yaml.catalogue.digest);
  });
});

function diagnosticsOf(dir: string) {
  const result = compileFolder(dir, {});
  return 'diagnostics' in result ? result.diagnostics : result.warnings;
}
