/** What an expression may be made of, beyond what the CEL checker itself refuses. Walks the syntax tree of cel-js. */
import type { ASTNode } from '@marcbachmann/cel-js';
import { scales } from './cel-decimal.js';
import type { CelType } from './cel-types.js';
import type { DiagnosticCode } from './diagnostics.js';
import { patternProblem } from './linear-pattern.js';

export interface ExpressionProblem {
  code: DiagnosticCode;
  message: string /** Of the first character concerned. */;
  offset: number;
}

/** Total functions over bounded input; `dyn`, `type`, `bytes` and what parses text at run time are not among them. */
const functions = new Set([
  'size',
  'has',
  'all',
  'exists',
  'exists_one',
  'map',
  'filter',
  'bind',
  'int',
  'double',
  'string',
  'bool',
  'matches',
  'contains',
  'startsWith',
  'endsWith',
  'indexOf',
  'lastIndexOf',
  'substring',
  'lowerAscii',
  'upperAscii',
  'trim',
  'split',
  'join',
  'timestamp',
  'duration',
  'indices',
  'count',
  'sum',
  'distinct',
  'decimal',
  'last',
  'getFullYear',
  'getMonth',
  'getDate',
  'getDayOfMonth',
  'getDayOfWeek',
  'getDayOfYear',
  'getHours',
  'getMinutes',
  'getSeconds',
  'getMilliseconds',
]);
const comprehensions = new Set(['all', 'exists', 'exists_one', 'map', 'filter']);
/** Functions whose own implementation replaces the library's; renamed in the tree, because an overload cannot be redefined. */
export const replaced: ReadonlyMap<string, string> = new Map([
  ['matches', 'linearMatches'],
  ['timestamp', 'exactTimestamp'],
  ['duration', 'exactDuration'],
]);
/** One loop inside another is quadratic in what an upstream sent; a third level is refused. */
const maxLoops = 2;

type Node = ASTNode & {
  op: string;
  args: unknown;
  start: number;
  checkedType?: { kind: string; name: string };
  meta: { macro?: { macroHasProps?: Node[] } };
};

export interface Walked {
  /** Top-level names that are read. */
  names: Set<string>;
  /** Members read directly from them, for instance `args.amount`. */
  paths: Set<string>;
  problems: ExpressionProblem[];
  /** Macro calls of `has`, to be held against the types once these are known. */
  asks: Node[];
  /** Index operations, likewise. */
  indexes: Node[];
  /** Tools of whose last results it speaks. */
  lasts: LastNamed[];
  /** The largest parts that read nothing, other than plain literals: what they give is known before any call. */
  constants: Node[];
}

export interface LastNamed {
  tool: string;
  /** The variable that stands for the result. */
  name: string;
  offset: number;
}

/** Before the type check. Replaces functions in place. */
export function walkSyntax(root: ASTNode): Walked {
  const walked: Walked = { names: new Set(), paths: new Set(), problems: [], asks: [], indexes: [], lasts: [], constants: [] };
  visit(root as Node, new Set(), 0, walked);
  collectConstants(root as Node, walked.constants);
  return walked;
}

function visit(node: unknown, bound: ReadonlySet<string>, loops: number, walked: Walked): void {
  if (Array.isArray(node)) {
    for (const part of node) visit(part, bound, loops, walked);
    return;
  }
  if (typeof node !== 'object' || node === null || !('op' in node)) return;
  const { op, args } = node as Node;
  if (op === 'value') {
    if (typeof args === 'bigint' && BigInt.asIntN(64, args) !== args)
      walked.problems.push({ code: 'CG102', message: `\`${args}\` is beyond 64 bits`, offset: (node as Node).start });
    return;
  }
  if (op === 'id') {
    if (!bound.has(args as string)) walked.names.add(args as string);
    return;
  }
  if (op === 'call' || op === 'rcall') {
    visitCall(node as Node, bound, loops, walked);
    return;
  }
  if (op === '.') {
    const [object, member] = args as [Node, string];
    if (object.op === 'id' && !bound.has(object.args as string)) walked.paths.add(`${object.args as string}.${member}`);
  }
  if (op === '[]') walked.indexes.push(node as Node);
  visit(args, bound, loops, walked);
}

function collectConstants(node: Node, found: Node[]): void {
  if (node.op !== 'value' && !readsSomething(node)) found.push(node);
  else for (const part of partsOf(node)) collectConstants(part, found);
}

function readsSomething(node: Node): boolean {
  return node.op === 'id' || partsOf(node).some(readsSomething);
}

function partsOf({ op, args }: Node): Node[] {
  const nodes = (value: unknown): Node[] =>
    Array.isArray(value) ? value.flatMap(nodes) : typeof value === 'object' && value !== null && 'op' in value ? [value as Node] : [];
  return op === 'value' ? [] : nodes(args);
}

function visitCall(node: Node, bound: ReadonlySet<string>, loops: number, walked: Walked): void {
  const parts = node.args as [string, ...unknown[]];
  const name = parts[0];
  const receiver = node.op === 'rcall' ? (parts[1] as Node) : null;
  const given = (node.op === 'rcall' ? parts[2] : parts[1]) as Node[];
  checkCall(node, name, given, walked);
  if (name === 'last') nameLast(parts, given, node.start, walked);
  parts[0] = replaced.get(name) ?? name;
  const scale = name === 'decimal' ? scaleOf(given[1]) : undefined;
  if (scale !== undefined) [parts[0], parts[1]] = [`decimal${scale}`, given.slice(0, 1)]; // a type for each scale
  const variable = given[0]?.args as string;
  if (receiver?.op === 'id' && receiver.args === 'cel' && name === 'bind') {
    visit(given[1], bound, loops, walked);
    visit(given[2], new Set([...bound, variable]), loops, walked);
  } else if (receiver && comprehensions.has(name)) {
    visit(receiver, bound, loops, walked);
    if (loops === maxLoops) {
      walked.problems.push({ code: 'CG105', message: `at most ${maxLoops} loops may stand inside one another`, offset: node.start });
    }
    visit(given.slice(1), new Set([...bound, variable]), loops + 1, walked);
  } else {
    visit([receiver, ...given], bound, loops, walked);
  }
}

function checkCall(node: Node, name: string, given: readonly Node[], walked: Walked): void {
  const refuse = (code: DiagnosticCode, message: string): void => {
    walked.problems.push({ code, message, offset: node.start });
  };
  if (!functions.has(name)) refuse('CG104', `the function \`${name}\` is not part of the contract language`);
  const literal = given[0]?.op === 'value' ? given[0].args : undefined;
  if (name === 'matches') {
    const unfit = typeof literal === 'string' ? patternProblem(literal) : 'it is not a literal';
    if (unfit !== undefined) refuse('CG104', `the pattern of \`matches\` cannot be used: ${unfit}`);
  }
  if (name === 'decimal' && scaleOf(given[1]) === undefined) refuse('CG104', `the scale of \`decimal\` is a literal from ${scales[0]} to ${scales.at(-1)}`);
  if (name === 'has') walked.asks.push(node);
}

/** `last(TOOL)`: a name that is no variable stands where a function takes a value, so it becomes the variable of that tool's result. */
function nameLast(parts: [string, ...unknown[]], given: readonly Node[], offset: number, walked: Walked): void {
  const [tool, first] = given.length === 1 ? toolNamed(given[0]!) : [];
  if (tool === undefined || !first) {
    walked.problems.push({ code: 'CG117', message: '`last` takes the name of one tool', offset });
    return;
  }
  const name = `last_${tool.replaceAll('_', '__').replaceAll('-', '_d')}`;
  first.args = name;
  parts[1] = [first];
  walked.lasts.push({ tool, name, offset: first.start });
}

/** A tool's name may have `-`, which CEL takes for a subtraction. Also gives the node of its first part. */
function toolNamed(node: Node): [string, Node] | [] {
  if (node.op === 'id') return [node.args as string, node];
  if (node.op !== '-') return [];
  const [left, right] = node.args as [Node, Node];
  const [name, first] = toolNamed(left);
  const rest = right.op === 'id' || right.op === 'value' ? String(right.args) : undefined;
  return name === undefined || !first || rest === undefined ? [] : [`${name}-${rest}`, first];
}

function scaleOf(node: Node | undefined): number | undefined {
  return node?.op === 'value' ? scales.find((scale) => BigInt(scale) === node.args) : undefined;
}

/** After the type check: members that `has` asks for must be declared, and a class is indexed by literal names alone. */
export function checkMembers({ asks, indexes }: Walked, classes: ReadonlyMap<string, CelType>): ExpressionProblem[] {
  const problems: ExpressionProblem[] = [];
  for (const { meta, start } of asks) {
    const [root, ...members] = [...(meta.macro?.macroHasProps ?? [])].reverse();
    let type = classes.get(root?.checkedType?.name ?? '');
    for (const { args } of members) {
      const member = (args as [Node, string])[1];
      if (!type?.fields) break;
      if (!type.fields.has(member)) {
        problems.push({ code: 'CG101', message: `\`has\` asks for the unknown member \`${member}\``, offset: start });
        break;
      }
      type = type.fields.get(member);
    }
  }
  for (const { args, start } of indexes) {
    const [object, index] = args as [Node, Node];
    if (object.checkedType?.kind === 'message' && index.op !== 'value') {
      problems.push({ code: 'CG101', message: 'a member can be chosen by a literal name only', offset: start });
    }
  }
  return problems;
}

/** RFC 3339. Null for text that is none, and for days and hours that do not exist, which JS rolls over to the next month or day. */
export function parseTimestamp(text: string): Date | null {
  const match = /^(\d{4}-\d{2}-\d{2})T(?:[01]\d|2[0-3]):\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/.exec(text);
  const date = new Date(text);
  if (!match || Number.isNaN(date.getTime())) return null;
  const day = new Date(`${match[1]}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(match[1]!) ? date : null;
}
