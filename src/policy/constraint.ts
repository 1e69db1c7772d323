/**
 * Whether policies hold an argument to something that is not text of the model. An argument that is only compared with other arguments is
 * held to nothing: who wrote the one wrote the other.
 */
import type { Clause, Expr } from '@cedar-policy/cedar-wasm/nodejs';
import { actionsOf, pathsIn, resourceTypeOf } from './footprint.js';
import type { Policy } from './read.js';

/**
 * @param field for instance `args.amount`
 * @param entity what policies are asked about when this tool is called; without one they never see an argument
 * @returns true when a `forbid` limits it, or every `permit` under which the call could pass does
 */
export function constrainsByPolicy(policies: readonly Policy[], action: string, entity: string | null, field: string): boolean {
  if (entity === null) return false;
  const path = ['context', ...field.split('.')];
  const applicable = policies.filter(({ json }) => {
    const type = resourceTypeOf(json);
    return (actionsOf(json)?.includes(action) ?? true) && (type === null || type === entity);
  });
  const permits = applicable.filter(({ json }) => json.effect === 'permit');
  const forbids = applicable.filter(({ json }) => json.effect === 'forbid');
  if (forbids.some(({ json }) => json.conditions.some(({ body }) => comparisons(body).some((one) => holds(one, path))))) return true;
  return permits.length > 0 && permits.every(({ json }) => json.conditions.some((clause) => always(clause, path)));
}

/** A condition of a permit: whichever way it comes true, the argument has been compared. */
function always({ body }: Clause, path: readonly string[]): boolean {
  return compared(body, path);
}

function compared(expression: Expr, path: readonly string[]): boolean {
  if ('&&' in expression) return sides(expression['&&']).some((side) => compared(side, path));
  if ('||' in expression) return sides(expression['||']).every((side) => compared(side, path));
  if ('!' in expression) return compared((expression as { '!': { arg: Expr } })['!'].arg, path);
  if ('if-then-else' in expression) {
    const { if: asked, then, else: otherwise } = (expression as { 'if-then-else': { if: Expr; then: Expr; else: Expr } })['if-then-else'];
    return compared(asked, path) || (compared(then, path) && compared(otherwise, path));
  }
  return holds(expression, path);
}

function sides(node: unknown): Expr[] {
  const { left, right } = node as { left: Expr; right: Expr };
  return [left, right];
}

const comparing = ['==', '!=', '<', '<=', '>', '>=', 'in', 'contains', 'containsAll', 'containsAny'];
const comparingFunctions = ['lessThan', 'lessThanOrEqual', 'greaterThan', 'greaterThanOrEqual', 'isInRange'];

/** One side reads the argument, and the other nothing that the model wrote. */
function holds(expression: Expr, path: readonly string[]): boolean {
  if ('like' in expression) return reads((expression as { like: { left: Expr } }).like.left, path);
  const operands = operandsOf(expression);
  return operands?.some((operand, index) => reads(operand, path) && operands.every((other, at) => at === index || !reads(other, ['context', 'args']))) ?? false;
}

function operandsOf(expression: Expr): Expr[] | null {
  for (const operator of comparing) if (operator in expression) return sides((expression as Record<string, unknown>)[operator]);
  for (const name of comparingFunctions) if (name in expression) return (expression as Record<string, Expr[]>)[name] as Expr[];
  return null;
}

/** `context` alone is all of it. */
function reads(expression: Expr, path: readonly string[]): boolean {
  return pathsIn(expression).some(({ path: found, asked }) => !asked && path.every((name, index) => index >= found.length || found[index] === name));
}

function comparisons(node: unknown): Expr[] {
  if (typeof node !== 'object' || node === null) return [];
  return [node as Expr, ...Object.values(node).flatMap(comparisons)].filter((one) => !Array.isArray(one));
}
