/**
 * What the schemas say about an expression beyond its type, worked out on its syntax tree: how long its lists can be, how many steps it
 * can take, and which texts it can never be equal to. A list that no schema bounds counts as `maxUndeclaredItems`, beyond which decoding fails.
 */
import type { ASTNode } from '@marcbachmann/cel-js';
import type { ExpressionProblem } from './cel-rules.js';
import { type CelType, maxUndeclaredItems } from './cel-types.js';
import { nearest } from './nearest.js';

/** Steps that one evaluation may take: some 100 ms at the very worst, and a thousand times less for contracts with declared bounds. */
export const maxSteps = 1_000_000;

/** What is known of a value: its type as far as the tree shows it, and how many elements it holds. */
interface Shape {
  type?: CelType | undefined;
  element?: Shape | undefined;
  /** Undefined where no schema says. */
  length?: number | undefined;
}

export interface Bounds {
  /** The most evaluation steps. */
  steps: number;
  /** Of the list or map that the expression gives; undefined where no schema says. */
  length: number | undefined;
  /** Of a text: all that it can be, where its schema lists them. */
  values: ReadonlySet<string> | undefined;
  /** Texts that are compared with what can never be one of them: a check that is always false, or always true, by a slip. */
  impossible: ExpressionProblem[];
}

type Node = Pick<ASTNode, 'op'> & { args: unknown; start?: number };
type Scope = ReadonlyMap<string, Shape>;
const loops = new Set(['all', 'exists', 'exists_one', 'map', 'filter']);
/** Functions that go through a list themselves. */
const walks = new Set(['indices', 'count', 'sum', 'distinct', 'join']);

export function boundsOf(root: ASTNode, types: ReadonlyMap<string, CelType>): Bounds {
  const scope = new Map([...types].map(([name, type]) => [name, { type, length: type.maxItems }]));
  const impossible: ExpressionProblem[] = [];
  const { shape, steps } = measure(root as Node, scope, (node, values) => impossible.push(...impossibleTexts(node, values)));
  return { steps, length: shape.length, values: shape.type?.values, impossible };
}

function impossibleTexts(node: Node, values: ReadonlySet<string>): ExpressionProblem[] {
  return (node.op === 'list' ? (node.args as Node[]) : [node]).flatMap(({ op, args, start = 0 }) => {
    if (op !== 'value' || typeof args !== 'string' || values.has(args)) return [];
    const meant = nearest(args, values);
    const all = listed(values);
    return [{ code: 'CG101' as const, message: `it is never \`${args}\`, only ${all}${meant ? `; did you mean \`${meant}\`?` : ''}`, offset: start }];
  });
}

const maxListed = 20;

function listed(values: ReadonlySet<string>): string {
  const shown = [...values].slice(0, maxListed).map((value) => `\`${value}\``);
  return [...shown, ...(values.size > maxListed ? [`and ${values.size - maxListed} more`] : [])].join(', ');
}

interface Measured {
  shape: Shape;
  steps: number;
}

const plain: Shape = {};

/** Told of each text, or list of them, that is compared with something whose values are known. */
type Comparing = (node: Node, values: ReadonlySet<string>) => void;

function measure({ op, args }: Node, scope: Scope, compare?: Comparing): Measured {
  switch (op) {
    case 'value':
      return { shape: plain, steps: 1 };
    case 'id':
      return { shape: scope.get(args as string) ?? plain, steps: 1 };
    case '.': {
      const [object, member] = args as [Node, string];
      const { shape, steps } = measure(object, scope, compare);
      return { shape: ofType(shape.type?.fields?.get(member) ?? shape.type?.parts[0]), steps: steps + 1 };
    }
    case '[]': {
      const [object, index] = args as [Node, Node];
      const { shape, steps } = measure(object, scope, compare);
      const named = index.op === 'value' ? shape.type?.fields?.get(String(index.args)) : undefined;
      return { shape: named ? ofType(named) : elementOf(shape), steps: steps + measure(index, scope, compare).steps + 1 };
    }
    case 'call':
    case 'rcall':
      return call({ op, args }, scope, compare);
    case 'list': {
      const items = (args as Node[]).map((item) => measure(item, scope, compare));
      return { shape: { length: items.length, element: items[0] && anyText(items[0].shape) }, steps: 1 + total(items) };
    }
    case '+': {
      const [left, right] = (args as Node[]).map((part) => measure(part, scope, compare)) as [Measured, Measured];
      const length = sumOf(left.shape.length, right.shape.length);
      return { shape: { ...anyText(left.shape), length }, steps: 1 + total([left, right]) };
    }
    case '==':
    case '!=': {
      const [left, right] = args as [Node, Node];
      const [first, second] = [measure(left, scope, compare), measure(right, scope, compare)];
      if (first.shape.type?.values) compare?.(right, first.shape.type.values);
      if (second.shape.type?.values) compare?.(left, second.shape.type.values);
      return { shape: plain, steps: 1 + total([first, second]) };
    }
    case '?:': {
      const [condition, yes, no] = (args as Node[]).map((part) => measure(part, scope, compare)) as [Measured, Measured, Measured];
      return { shape: anyText(longer(yes.shape, no.shape)), steps: 1 + total([condition, yes, no]) };
    }
    case 'in': {
      const [value, list] = (args as Node[]).map((part) => measure(part, scope, compare)) as [Measured, Measured];
      if (value.shape.type?.values) compare?.((args as Node[])[1]!, value.shape.type.values);
      return { shape: plain, steps: 1 + total([value, list]) + (isMap(list.shape) ? 0 : size(list.shape)) };
    }
    default:
      return { shape: plain, steps: 1 + total(nodesIn(args).map((part) => measure(part, scope, compare))) };
  }
}

function call({ op, args }: Node, scope: Scope, compare?: Comparing): Measured {
  const parts = args as [string, ...unknown[]];
  const name = parts[0];
  const receiver = op === 'rcall' ? (parts[1] as Node) : null;
  const given = (receiver ? parts[2] : parts[1]) as Node[];
  if (receiver?.op === 'id' && receiver.args === 'cel' && name === 'bind') return bind(given, scope, compare);
  if (receiver && loops.has(name)) return loop(name, measure(receiver, scope, compare), given, scope, compare);
  const measured = [...(receiver ? [receiver] : []), ...given].map((part) => measure(part, scope, compare));
  const list = measured[0]?.shape ?? plain;
  const steps = 1 + total(measured) + (walks.has(name) ? size(list) : 0);
  if (name === 'indices') return { shape: { length: list.length }, steps };
  return { shape: name === 'distinct' ? list : plain, steps };
}

function bind([variable, value, body]: Node[], scope: Scope, compare?: Comparing): Measured {
  const bound = measure(value!, scope, compare);
  const inside = measure(body!, new Map([...scope, [String(variable!.args), bound.shape]]), compare);
  return { shape: inside.shape, steps: bound.steps + inside.steps + 1 };
}

function loop(name: string, over: Measured, [variable, ...body]: Node[], scope: Scope, compare?: Comparing): Measured {
  const inner = new Map([...scope, [String(variable!.args), isMap(over.shape) ? plain : elementOf(over.shape)]]);
  const inside = body.map((part) => measure(part, inner, compare));
  const steps = 1 + over.steps + size(over.shape) * (1 + total(inside));
  if (name === 'map') return { shape: { length: over.shape.length, element: inside.at(-1)!.shape }, steps };
  return { shape: name === 'filter' ? over.shape : plain, steps };
}

function ofType(type: CelType | undefined): Shape {
  return type ? { type, length: type.maxItems } : plain;
}

/** Where something was added, or could be another value as well, the texts of its schema are not all that it can be. */
function anyText(shape: Shape): Shape {
  return shape.type?.values ? { ...shape, type: undefined } : shape;
}

/** Of a list or map, what an index gives. */
function elementOf({ type, element }: Shape): Shape {
  return element ?? ofType(type?.parts.length === 1 ? type.parts[0] : undefined);
}

function isMap({ type }: Shape): boolean {
  return type?.name.startsWith('map<') ?? false;
}

function size({ length }: Shape): number {
  return length ?? maxUndeclaredItems;
}

function longer(a: Shape, b: Shape): Shape {
  return a.length === undefined || (b.length !== undefined && a.length >= b.length) ? a : b;
}

function sumOf(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b;
}

function total(parts: readonly Measured[]): number {
  return parts.reduce((sum, { steps }) => sum + steps, 0);
}

function nodesIn(args: unknown): Node[] {
  if (Array.isArray(args)) return args.flatMap(nodesIn);
  return typeof args === 'object' && args !== null && 'op' in args ? [args as Node] : [];
}
