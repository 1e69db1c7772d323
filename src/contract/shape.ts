/** The shape of a contract document, held against the published schemas/contract.schema.json. */
import { existsSync, readFileSync } from 'node:fs';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { diagnostic, type Diagnostic } from './diagnostics.js';
import { gapsIn } from './gaps.js';
import { nearest } from './nearest.js';
import { fromPointer, toPointer, valueAt, type Path } from './pointer.js';
import type { SourceFile } from './source.js';

export interface ShapeVerdict {
  diagnostics: Diagnostic[];
  /** Tools whose own members are malformed; the others can still be compiled and reported on. */
  brokenTools: ReadonlySet<string>;
  /** False when something outside `tools` is malformed, so that nothing of this file can be compiled. */
  usable: boolean;
}

export function checkShape(source: SourceFile): ShapeVerdict {
  const validate = shapeValidator();
  validate(source.document);
  const gaps = gapsIn(source.document);
  const open = new Set(gaps.map(({ path }) => toPointer(path)));
  // An open question has no right form yet.
  const errors = leaves(validate.errors ?? []).filter(({ instancePath }) => !open.has(instancePath));
  const brokenTools = new Set<string>();
  let usable = true;
  for (const [section, tool] of [...errors.map(({ instancePath }) => fromPointer(instancePath)), ...gaps.map(({ path }) => path)]) {
    if (section === 'tools' && tool !== undefined) brokenTools.add(String(tool));
    else usable = false;
  }
  const unanswered = gaps.map(({ path, question }) =>
    diagnostic(source.file, source.valuePosition(path), 'CG901', `\`${path.join('.')}\` is not answered: ${question}`),
  );
  return { diagnostics: [...errors.map((error) => describe(source, error)), ...unanswered], brokenTools, usable };
}

/** Half of the time otherwise: the published schema is held against the meta-schema by a test, and a document is held against it once. */
const quickToGenerate = { validateSchema: false, code: { optimize: false } };
let compiled: ValidateFunction | undefined;

function shapeValidator(): ValidateFunction {
  compiled ??= new Ajv2020({ strict: true, allErrors: true, ownProperties: true, verbose: true, ...quickToGenerate }).compile(publishedSchema());
  return compiled;
}

/** The file lies at the top of the package, which is one level further up from the built code than from the source. */
function publishedSchema(): object {
  for (let folder = new URL('./', import.meta.url); ; folder = new URL('../', folder)) {
    const candidate = new URL('schemas/contract.schema.json', folder);
    if (existsSync(candidate)) return JSON.parse(readFileSync(candidate, 'utf8')) as object;
    if (folder.pathname === '/')
      throw new Error('schemas/contract.schema.json is missing from this installation of Callgate; install it again');
  }
}

/** Of a failed alternative or name rule, the part that says something; the wrapper says nothing more. */
function leaves(errors: readonly ErrorObject[]): ErrorObject[] {
  return errors.filter(({ keyword }) => !['oneOf', 'anyOf', 'propertyNames', 'if'].includes(keyword));
}

function describe(source: SourceFile, error: ErrorObject): Diagnostic {
  const path = fromPointer(error.instancePath);
  const where = path.length === 0 ? 'the contract' : `\`${path.join('.')}\``;
  const report = (code: 'CG004' | 'CG005' | 'CG006', at: Path, message: string): Diagnostic =>
    diagnostic(source.file, code === 'CG006' ? source.valuePosition(at) : source.keyPosition(at), code, message);
  if (error.propertyName !== undefined) {
    return diagnostic(
      source.file,
      source.keyPosition([...path, error.propertyName]),
      'CG006',
      `\`${error.propertyName}\` is not a name that ${where} can have: it ${error.message}`,
    );
  }
  switch (error.keyword) {
    case 'additionalProperties': {
      const name = String(error.params['additionalProperty']);
      const known = nearest(name, Object.keys((error.parentSchema as { properties?: object }).properties ?? {}));
      return report('CG004', [...path, name], `${where} has no member \`${name}\`${known ? `; did you mean \`${known}\`?` : ''}`);
    }
    case 'required':
    case 'dependentRequired':
      return report('CG005', path, `${where} lacks the member \`${error.params['missingProperty']}\``);
    case 'enum': {
      const value = valueAt(source.document, path);
      const allowed = (error.params['allowedValues'] as unknown[]).map(String);
      const meant = typeof value === 'string' ? nearest(value, allowed) : undefined;
      return report(
        'CG006',
        path,
        `${where} must be one of ${allowed.map((one) => `\`${one}\``).join(', ')}${meant ? `; did you mean \`${meant}\`?` : ''}`,
      );
    }
    default:
      return report('CG006', path, `${where} ${error.message ?? 'has the wrong form'}`);
  }
}
