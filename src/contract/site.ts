/** Compiles the expressions, templates and values of one file, reporting what is wrong with each at its place. */
import type { Json } from '../model.js';
import type { Findings } from './findings.js';
import { constant, unknownType, type CompiledExpression, type Names, type Wanted } from './expressions.js';
import { EvaluationError } from './plan.js';
import type { Path } from './pointer.js';
import { isSchemaObject } from './schema-subset.js';
import type { SourceFile } from './source.js';
import {
  barePath,
  listValue,
  memberName,
  objectValue,
  parseTemplate,
  type CompiledTemplate,
  type CompiledValue,
  type TemplatePart,
} from './templates.js';

export class Site {
  /** Top-level names that the expressions of this place read. */
  readonly read = new Set<string>();

  constructor(
    readonly file: SourceFile,
    readonly findings: Findings,
  ) {}

  /** What failed to compile is reported and replaced by an expression that cannot be evaluated, so that the rest is still checked. */
  expression<K extends keyof Wanted>(path: Path, source: string, names: Names, wanted: K, offset = 0): CompiledExpression<Wanted[K]> {
    const compiled = names.compile(source, wanted);
    if (!('problems' in compiled)) {
      for (const name of compiled.names) this.read.add(name);
      return compiled;
    }
    if (!names.uncertain)
      for (const problem of compiled.problems) this.findings.value(this.file, path, problem.code, problem.message, offset + problem.offset);
    return unusable(source);
  }

  optional<K extends keyof Wanted>(path: Path, source: string | undefined, names: Names, wanted: K): CompiledExpression<Wanted[K]> | null {
    return source === undefined ? null : this.expression(path, source, names, wanted);
  }

  /** A text is an expression, any other value is itself. */
  member(path: Path, value: Json, names: Names): CompiledExpression<Json> {
    return typeof value === 'string' ? this.expression(path, value, names, 'json') : constant(value);
  }

  members(path: Path, values: Record<string, Json>, names: Names): Record<string, CompiledExpression<Json>> {
    return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, this.member([...path, name], value, names)]));
  }

  /** Like `member`, at every depth. */
  value(path: Path, value: Json, names: Names): CompiledValue {
    if (Array.isArray(value)) return listValue(value.map((item, index) => this.value([...path, index], item, names)));
    if (isSchemaObject(value))
      return objectValue(
        Object.entries(value).map(([written, item]) => {
          const below = [...path, written];
          return { ...this.named(below, written, item), value: this.value(below, item, names) };
        }),
      );
    return this.member(path, value, names);
  }

  /** The name of a member, and what it must not be sent without. @param value an expression, or a template of one */
  named(path: Path, written: string, value: Json): { name: string; optional: Path | null } {
    const { name, optional } = memberName(written);
    if (!optional) return { name, optional: null };
    const bare = typeof value === 'string' ? barePath(value) : null;
    if (!bare) this.findings.key(this.file, path, 'CG114', `\`${written}\` is left out when its value is absent, and this value cannot be told to be`);
    return { name, optional: bare };
  }

  parts(path: Path, text: string): TemplatePart[] | null {
    try {
      return parseTemplate(text);
    } catch (thrown) {
      this.findings.value(this.file, path, 'CG112', `the template has ${(thrown as Error).message}`);
      return null;
    }
  }

  template(path: Path, text: string, names: Names): CompiledTemplate {
    const parts = this.parts(path, text) ?? [];
    return parts.map((part) => ('text' in part ? part.text : this.expression(path, part.expression, names, 'text', part.offset)));
  }
}

function unusable(source: string): CompiledExpression<never> {
  const evaluate = (): never => {
    throw new EvaluationError(source, new Error('it did not compile'));
  };
  return { source, names: new Set(), paths: new Set(), type: unknownType, evaluate };
}
