/** CEL expressions, compiled once against the names and types of the place where they stand. */
import type { ASTNode, Environment, ParseError, ParseResult } from '@marcbachmann/cel-js';
import type { Json } from '../model.js';
import { boundsOf, maxSteps } from './cel-bounds.js';
import { baseEnvironment, constantProblem } from './cel-functions.js';
import { checkMembers, type LastNamed, walkSyntax, type ExpressionProblem } from './cel-rules.js';
import { celBool, celDecimals, celDouble, celDyn, celInt, celList, celMap, celString, celUnknown, encode, type CelType } from './cel-types.js';
import { nearest } from './nearest.js';
import { EvaluationError, type Expression, type Scope } from './plan.js';

const maxSourceLength = 2000;
const limits = { maxAstNodes: 400, maxDepth: 32, maxListElements: 200, maxMapEntries: 50, maxCallArguments: 8 };

/** What a place asks of its expression. `text` is text, a whole number, a decimal or a boolean, for templates. */
export interface Wanted {
  bool: boolean;
  string: string;
  text: string;
  /** A text, or the digits of an integer. */
  id: string;
  json: Json;
}

export interface CompiledExpression<T> extends Expression<T> {
  /** Members read directly from top-level names, for instance `args.amount`. */
  readonly paths: ReadonlySet<string>;
  readonly type: string;
  /** Of the list or map that it gives: the most elements; undefined where no schema says. */
  readonly maxItems?: number | undefined;
  /** Of a text: all that it can be, where its schema lists them. */
  readonly values?: ReadonlySet<string> | undefined;
  /** Of an object: the members that it can have, where they are known. */
  readonly members?: readonly string[] | undefined;
  /** @param lets what was worked out already in this evaluation */
  evaluate(scope: Scope, lets?: Map<Lazy, Json>): T;
}

/** Of an expression that names none. */
const noLets: Map<Lazy, Json> = new Map();

/** Within one evaluation: names that name one another twice each would otherwise double its cost at every step. */
function once(lazy: Lazy, scope: Scope, lets: Map<Lazy, Json>): Json {
  if (!lets.has(lazy)) lets.set(lazy, lazy.expression.evaluate(scope, lets));
  return lets.get(lazy)!;
}

/** A value that is computed on first use from other names. */
interface Lazy {
  readonly expression: CompiledExpression<Json>;
  readonly type: CelType;
}

/**
 * The classes that the expressions of one tool can meet. The first that an environment registers makes it copy every function that there
 * is, and a compiled expression keeps its environment: so they are registered together, and all places of the tool share the copy.
 */
class Vocabulary {
  private environment = base;
  private readonly known = new Set<string>();

  knowing(types: Iterable<CelType>): Environment {
    const fresh = [...types].filter(({ name, ctor, fields }) => ctor && fields && !this.known.has(name));
    if (fresh.length > 0) this.environment = this.environment.clone({ limits });
    for (const { name, fields, ctor } of fresh) {
      this.known.add(name);
      this.environment.registerType(name, { ctor: ctor!, fields: Object.fromEntries([...fields!].map(([field, type]) => [field, type.name])) });
    }
    return this.environment;
  }
}

/** The names that expressions of one place may read, with their types. */
export class Names {
  private environment: Environment | undefined;
  private registered: ReadonlyMap<string, CelType> | undefined;

  private constructor(
    private readonly types: ReadonlyMap<string, CelType>,
    private readonly lazies: ReadonlyMap<string, Lazy>,
    private readonly vocabulary: Vocabulary,
  ) {}

  /** @param ahead types of names that places of the same tool will know besides */
  static of(types: Record<string, CelType>, ahead: Iterable<CelType> = []): Names {
    const vocabulary = new Vocabulary();
    vocabulary.knowing(reachedFrom([...Object.values(types), ...ahead]).values());
    return new Names(new Map(Object.entries(types)), new Map(), vocabulary);
  }

  /** These alone, at another place of the same tool. */
  only(types: Record<string, CelType>): Names {
    return new Names(new Map(Object.entries(types)), new Map(), this.vocabulary);
  }

  with(more: Record<string, CelType>): Names {
    return new Names(new Map([...this.types, ...Object.entries(more)]), this.lazies, this.vocabulary);
  }

  withLazy(name: string, expression: CompiledExpression<Json>): Names {
    const type = atMost(this.typeNamed(expression.type), expression.maxItems);
    return new Names(new Map([...this.types, [name, type]]), new Map([...this.lazies, [name, { expression, type }]]), this.vocabulary);
  }

  knows(name: string): boolean {
    return this.types.has(name);
  }

  /** True when something here failed to compile, so that a further finding may be nothing but its consequence. */
  get uncertain(): boolean {
    return [...this.types.values()].some((type) => type === celUnknown || type.parts.includes(celUnknown));
  }

  /** The type that the checker calls by this name. */
  typeNamed(name: string): CelType {
    if (name === unknownType) return celUnknown;
    const known = this.classes().get(name) ?? primitives.get(name);
    if (known) return known;
    const item = /^list<(.+)>$/.exec(name)?.[1];
    if (item !== undefined) return celList(this.typeNamed(item));
    const [, key, member] = /^map<(string|int), (.+)>$/.exec(name) ?? [];
    return member === undefined ? celDyn : celMap(this.typeNamed(member), { key: key as 'string' | 'int' });
  }

  /** @returns the expression, or everything that is wrong with it. */
  compile<K extends keyof Wanted>(source: string, wanted: K): CompiledExpression<Wanted[K]> | { problems: ExpressionProblem[] } {
    if (source.length > maxSourceLength) {
      return failed('CG105', `the expression has ${source.length} characters, and ${maxSourceLength} are the most`);
    }
    const parsed = this.parse(source);
    if ('problems' in parsed) return parsed;
    const walked = walkSyntax(parsed.ast);
    if (walked.problems.length > 0) return { problems: walked.problems };
    const misplaced = walked.lasts.filter(({ name }) => !this.knows(name));
    if (misplaced.length > 0) return { problems: misplaced.map(({ offset }) => ({ code: 'CG117', message: '`last` has a meaning in `bind` alone', offset })) };
    const verdict = parsed.check();
    if (!verdict.valid) return { problems: [this.typeProblem(source, verdict.error as ParseError)] };
    const { steps, length, values, impossible } = boundsOf(parsed.ast, this.types);
    const misused = [...impossible, ...checkMembers(walked, this.classes()), ...walked.constants.flatMap(neverEvaluates)];
    if (misused.length > 0) return { problems: misused };
    const type = verdict.type ?? 'dyn';
    if (!fits(type, wanted)) return failed('CG102', `the expression gives ${shown(type)}, and ${needs[wanted]} is needed here`);
    if (steps > maxSteps) return failed('CG105', `the expression could take ${steps} steps, and ${maxSteps} are the most`);
    return { ...this.bound(source, type, walked, parsed, wanted), maxItems: length, values, members: this.membersOf(parsed.ast, type) };
  }

  private membersOf({ op, args }: ASTNode, type: string): string[] | undefined {
    const fields = this.classes().get(type)?.fields;
    if (op !== 'map') return fields && [...fields.keys()].sort();
    const names = (args as [ASTNode, ASTNode][]).map(([key]) => (key.op === 'value' ? key.args : undefined));
    return names.every((name) => typeof name === 'string') ? (names as string[]) : undefined;
  }

  private parse(source: string): ParseResult | { problems: ExpressionProblem[] } {
    try {
      return this.env().parse(source);
    } catch (thrown) {
      const { code, summary, range } = thrown as ParseError;
      return /limit|exceed/i.test(`${code} ${summary}`)
        ? failed('CG105', `the expression is too large: ${summary}`, range?.start)
        : failed('CG103', `this is not CEL: ${summary}`, range?.start);
    }
  }

  private bound<K extends keyof Wanted>(
    source: string,
    type: string,
    { names, paths }: { names: Set<string>; paths: Set<string> },
    run: (context: object) => unknown,
    wanted: K,
  ): CompiledExpression<Wanted[K]> {
    const reads = [...names].map((name) => ({ name, type: this.types.get(name)!, lazy: this.lazies.get(name) }));
    const all = new Set(reads.flatMap(({ name, lazy }) => (lazy ? [...lazy.expression.names] : [name])));
    const convert = converters[wanted] as (value: unknown) => Wanted[K];
    const lazies = reads.some(({ lazy }) => lazy);
    const evaluate = (scope: Scope, lets: Map<Lazy, Json> = lazies ? new Map<Lazy, Json>() : noLets): Wanted[K] => {
      try {
        const context: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
        for (const { name, type: declared, lazy } of reads) {
          const value = lazy ? once(lazy, scope, lets) : scope[name];
          const decoded = value === undefined || value === null ? undefined : declared.decode(value);
          if (decoded !== undefined) context[name] = decoded;
        }
        return convert(run(context));
      } catch (thrown) {
        throw thrown instanceof EvaluationError ? thrown : new EvaluationError(source, thrown);
      }
    };
    return { source, type, names: all, paths, evaluate };
  }

  private typeProblem(source: string, { code, summary, range }: ParseError): ExpressionProblem {
    const unknown = /^(?:No such key|Unknown variable): (\w+)$/.exec(summary)?.[1];
    const known =
      code === 'unknown_variable'
        ? [...this.types.keys()]
        : [...this.classes().values()].flatMap((type) => [...(type.fields?.keys() ?? [])]);
    const meant = unknown === undefined ? undefined : nearest(unknown, known);
    const offset = range?.start ?? 0;
    if (unknown === undefined) return { code: 'CG101', message: `\`${source}\` does not type-check: ${shown(summary)}`, offset };
    const kind = code === 'unknown_variable' ? 'name' : 'member';
    return { code: 'CG101', message: `there is no ${kind} \`${unknown}\` here${meant ? `; did you mean \`${meant}\`?` : ''}`, offset };
  }

  private classes(): ReadonlyMap<string, CelType> {
    this.registered ??= reachedFrom(this.types.values());
    return this.registered;
  }

  private env(): Environment {
    if (this.environment) return this.environment;
    const env = this.vocabulary.knowing(this.classes().values()).clone({ limits });
    for (const [name, { name: type }] of this.types) env.registerVariable(name, type);
    this.environment = env;
    return env;
  }
}

/** By the names that the checker gives them, with the types of all that they hold; each is looked at once, however many hold it. */
function reachedFrom(types: Iterable<CelType>): ReadonlyMap<string, CelType> {
  const found = new Map<string, CelType>();
  const open = [...types];
  for (let type = open.pop(); type; type = open.pop()) {
    if (found.has(type.name)) continue;
    found.set(type.name, type);
    open.push(...type.parts);
  }
  return found;
}

/** The type of an expression that did not compile. */
export const unknownType = 'unknown';

const primitives = new Map([celBool, celDouble, celInt, celString, ...celDecimals].map((type) => [type.name, type]));

const base = baseEnvironment(limits);

/** Of literals alone: what fails once fails at every call, so it is told here. */
function neverEvaluates(node: ASTNode & { start: number }): ExpressionProblem[] {
  const problem = constantProblem(node, base);
  return problem === undefined ? [] : [{ code: 'CG102', message: `this can never be evaluated: ${problem}`, offset: node.start }];
}

/** Top-level names that a text reads; none where it is not an expression. */
export function namesIn(source: string): ReadonlySet<string> {
  try {
    return walkSyntax(base.parse(source).ast).names;
  } catch {
    return new Set();
  }
}

/** Tools of whose last results a text speaks; none where it is not an expression. */
export function lastsIn(source: string): readonly LastNamed[] {
  try {
    return /\blast\b/.test(source) ? walkSyntax(base.parse(source).ast).lasts : [];
  } catch {
    return [];
  }
}

const needs: Record<keyof Wanted, string> = {
  bool: 'bool',
  string: 'string',
  text: 'text, a number or a boolean',
  id: 'a string or an integer',
  json: 'a JSON value',
};

function fits(type: string, wanted: keyof Wanted): boolean {
  switch (wanted) {
    case 'bool':
      return type === 'bool' || type === 'dyn';
    case 'string':
      return type === 'string' || type === 'dyn';
    case 'text':
      return /^(string|int|double|bool|decimal\d)$/.test(type);
    case 'id':
      return type === 'string' || type === 'int' || type === 'dyn';
    case 'json':
      return !/google\.protobuf|bytes|uint|^type$|^optional/.test(type);
  }
}

const converters: { [K in keyof Wanted]: (value: unknown) => Wanted[K] } = {
  bool: (value) => {
    if (typeof value !== 'boolean') throw new TypeError('the result is not a boolean');
    return value;
  },
  string: (value) => celString.decode(value) as string,
  text: (value) => String(encode(value)),
  id: (value) => {
    if (typeof value !== 'string' && typeof value !== 'bigint') throw new TypeError('the result is neither a text nor an integer');
    return String(value);
  },
  json: encode,
};

/** Without the number that keeps classes apart. */
function shown(text: string): string {
  return text.replace(/_\d+\b/g, '');
}

function atMost(type: CelType, maxItems: number | undefined): CelType {
  return maxItems === undefined ? type : { ...type, maxItems };
}

function failed(code: ExpressionProblem['code'], message: string, offset = 0): { problems: ExpressionProblem[] } {
  return { problems: [{ code, message, offset }] };
}

/** A value that is written as it is. */
export function constant(value: Json): CompiledExpression<Json> {
  const type =
    typeof value === 'string'
      ? 'string'
      : typeof value === 'boolean'
        ? 'bool'
        : typeof value !== 'number'
          ? 'dyn'
          : Number.isInteger(value)
            ? 'int'
            : 'double';
  return { source: JSON.stringify(value), names: new Set(), paths: new Set(), type, evaluate: () => value };
}
