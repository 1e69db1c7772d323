/** The verdicts of admitted keywords are those of the official JSON Schema suite; what is not admitted is refused, not ignored. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { evidentlyAdmits } from '../../src/contract/evident.js';
import { admittedFormats, schemaProblems } from '../../src/contract/schema-subset.js';
import { SchemaCompiler, type Validator } from '../../src/contract/schemas.js';
import type { Json } from '../../src/model.js';

interface Group {
  description: string;
  schema: Json;
  tests: { description: string; data: Json; valid: boolean }[];
}

const root = fileURLToPath(new URL('../../../shared/data/vectors/', import.meta.url));
const suite = `${root}json-schema/draft2020-12/`;
/** Formats of ajv-formats with the number of optional-suite verdicts that it is known to differ in; the first run prints which. */
const knownDifferences = { 'date-time': 3, date: 0, time: 0, duration: 2, email: 5, ipv4: 0, ipv6: 0, uri: 3, uuid: 1 };

if (!existsSync(suite)) {
  test(`NOT CHECKED: the official vectors are not at ${root}; verdicts were not held against them`, () => {
    expect(existsSync(suite)).toBe(false);
  });
} else {
  describe('the official JSON Schema suite', () => {
    test('agrees on every schema that the contract language admits', () => {
      const schemas = new SchemaCompiler();
      const count = { groups: 0, admitted: 0, tests: 0, evident: 0 };
      const disagreements: string[] = [];
      for (const file of readdirSync(suite).filter((name) => name.endsWith('.json'))) {
        for (const group of JSON.parse(readFileSync(suite + file, 'utf8')) as Group[]) {
          count.groups++;
          if (
            typeof group.schema !== 'object' ||
            group.schema === null ||
            Array.isArray(group.schema) ||
            schemaProblems(group.schema, 'result').length > 0
          )
            continue;
          const validator = valid(schemas, group.schema);
          if (!validator) continue;
          count.admitted++;
          for (const { description, data, valid: expected } of group.tests) {
            count.tests++;
            expect(validator.errors(data).length === 0, description).toBe(validator.holds(data));
            if (evidentlyAdmits(group.schema, data)) {
              count.evident++;
              expect(validator.holds(data), description).toBe(true);
            }
            if (validator.holds(data) !== expected) disagreements.push(`${file}: ${group.description}: ${description}`);
          }
        }
      }
      console.log(
        `JSON Schema suite: ${count.admitted} of ${count.groups} schemas admitted, ${count.tests} verdicts, ${count.evident} evident, ${disagreements.length} differ`,
      );
      expect(count.tests).toBeGreaterThan(700);
      expect(count.evident).toBeGreaterThan(100);
      // The suite's default dialect takes `format` as an annotation; the contract language enforces it.
      expect(disagreements.filter((one) => !one.startsWith('format.json: '))).toEqual([]);
      expect(disagreements.every((one) => one.startsWith('format.json: ') === one.endsWith('is only an annotation by default'))).toBe(true);
    });

    test('the formats listed here are those that are admitted', () => {
      expect(Object.keys(knownDifferences).sort()).toEqual([...admittedFormats].sort());
    });

    test.each(Object.entries(knownDifferences))(
      'differs on the optional format %s in no more than the %d known verdicts',
      (name, known) => {
        const { holds } = new SchemaCompiler().validator({ type: 'string', format: name });
        const tests = (JSON.parse(readFileSync(`${suite}optional/format/${name}.json`, 'utf8')) as Group[])
          .flatMap((group) => group.tests)
          .filter(({ data }) => typeof data === 'string');
        const differing = tests.filter(({ data, valid }) => holds(data) !== valid);
        const which = differing.map(({ description }) => `\n    ${description}`).join('');
        console.log(`format ${name}: ${tests.length} verdicts, ${differing.length} differ${which}`);
        expect(tests.length).toBeGreaterThan(10);
        expect(differing.length).toBe(known);
      },
    );
  });
}

/** Null for what the meta-schema refuses. */
function valid(schemas: SchemaCompiler, schema: Json): Validator | null {
  try {
    return schemas.validator(schema);
  } catch {
    return null;
  }
}
