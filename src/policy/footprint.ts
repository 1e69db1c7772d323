/**
 * What a policy reads of a request. Converting and copying a request into Cedar costs more than evaluating most policies
 * (a hundred-line argument: 1.5 ms against 0.1 ms), so only what some policy names is passed. Whatever this does not
 * understand counts as a read of everything.
 */
import type { PolicyJson } from '@cedar-policy/cedar-wasm/nodejs';

export interface Footprint {
  /** Whether which resource it is can matter, beside its type and attributes. */
  resourceId: boolean;
  /** Names of attributes of the resource, or all of them. */
  resource: ReadonlySet<string> | 'all';
  /** Names of top-level members of `context.args`, or all of them. */
  args: ReadonlySet<string> | 'all';
}

export function footprintOf(policies: readonly PolicyJson[]): Footprint {
  const paths = policies.flatMap((policy) => pathsIn(policy.conditions)).map(({ path }) => path);
  const resource = namesAfter(['resource'], paths);
  return {
    resourceId: resource === 'all' || policies.some((policy) => headNamesResource(policy)),
    resource,
    args: namesAfter(['context', 'args'], paths),
  };
}

/** Tools that the head of a policy names, or null when it applies to every action. */
export function actionsOf(policy: PolicyJson): string[] | null {
  const { action } = policy;
  if (action.op === 'All') return null;
  if ('entities' in action) return action.entities.map(idOf);
  return 'entity' in action ? [idOf(action.entity)] : null;
}

/** Every action that a policy names anywhere, in its head or in a condition. */
export function actionsNamed(node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return [];
  const { type, id } = node as { type?: unknown; id?: unknown };
  return type === 'Action' && typeof id === 'string' ? [id] : Object.values(node).flatMap(actionsNamed);
}

/** `resource == order::"O-417"` and `resource in …`, as against a bare `resource` or `resource is order`. */
function headNamesResource({ resource }: PolicyJson): boolean {
  return !(resource.op === 'All' || (resource.op === 'is' && !('in' in resource && resource.in)));
}

function idOf(entity: { __entity: { id: string } } | { id: string }): string {
  return '__entity' in entity ? entity.__entity.id : entity.id;
}

/** Of an entity type that the head of a policy names; null when it may be any. */
export function resourceTypeOf({ resource }: PolicyJson): string | null {
  if (resource.op === 'is') return resource.entity_type;
  if (resource.op === 'All' || !('entity' in resource)) return null;
  return '__entity' in resource.entity ? resource.entity.__entity.type : resource.entity.type;
}

/** Every maximal access path in an expression, for instance `context.args.amount` as three names; `asked` where it stands in a `has`. */
export function pathsIn(node: unknown): { path: string[]; asked: boolean }[] {
  if (typeof node !== 'object' || node === null) return [];
  const path = pathOf(node);
  return path ? [{ path, asked: 'has' in node }] : Object.values(node).flatMap(pathsIn);
}

interface AccessNode {
  Var?: unknown;
  '.'?: { left?: unknown; attr?: unknown };
  has?: { left?: unknown; attr?: unknown };
}

function pathOf(node: unknown): string[] | null {
  if (typeof node !== 'object' || node === null) return null;
  const { Var: variable, '.': member, has } = node as AccessNode;
  if (typeof variable === 'string') return [variable];
  const access = member ?? has;
  const before = access && pathOf(access.left);
  return before ? [...before, ...[access.attr].flat().map(String)] : null;
}

function namesAfter(prefix: readonly string[], paths: readonly string[][]): ReadonlySet<string> | 'all' {
  const names = new Set<string>();
  for (const path of paths) {
    if (!prefix.every((name, index) => index >= path.length || path[index] === name)) continue;
    const name = path[prefix.length];
    if (name === undefined) return 'all';
    names.add(name);
  }
  return names;
}
