/** The operations of a document, the names of their tools, and which of them were chosen. */
import { createHash } from 'node:crypto';
import type { JsonObject } from '../../../model.js';
import { listOf, objectOf, own, dereferenced, textOf } from './source.js';

export interface Operation {
  /** Of the tool: a function of the document's operation id, or of method and path, so that it is the same at every import. */
  name: string;
  id: string | null;
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  tags: string[];
  item: JsonObject;
  source: JsonObject;
}

export interface Selection {
  /** Globs, `*` for any text and `?` for one character. Those of one kind are alternatives; an operation has to meet every kind. */
  tag?: readonly string[];
  path?: readonly string[];
  /** Operation ids or tool names. */
  operation?: readonly string[];
  /** Any of the three. */
  select?: readonly string[];
}

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** In the order of the document. */
export function operationsOf(root: JsonObject): Operation[] {
  const found = Object.entries(objectOf(root['paths'])).flatMap(([path, declared]) => {
    const item = dereferenced(root, declared);
    return methods.flatMap((method) => {
      const source = own(item, method.toLowerCase());
      if (!path.startsWith('/') || typeof source !== 'object' || source === null || Array.isArray(source)) return [];
      const id = textOf(source['operationId']) || null;
      const tags = listOf(source['tags']).filter((tag) => typeof tag === 'string');
      return [{ name: '', id, method, path, tags, item, source }];
    });
  });
  return named(found);
}

/**
 * Over all operations and not only the chosen ones, or a choice would change the names. An id that is a name as it stands keeps it, whatever
 * operations come to the document later.
 */
function named(operations: Operation[]): Operation[] {
  const plain = operations.map(({ id, method, path }) => ({ id, name: toolName(id ?? `${method.toLowerCase()} ${path}`) }));
  const [names, ids] = [counted(plain.map(({ name }) => name)), counted(operations.map(({ id }) => id))];
  return operations.map((operation, index) => {
    const { id, name } = plain[index]!;
    const own = names.get(name) === 1 || (id === name && ids.get(id) === 1);
    return { ...operation, name: own ? name : withHash(name, `${operation.method} ${operation.path}`) };
  });
}

function counted<T>(values: readonly T[]): Map<T, number> {
  const count = new Map<T, number>();
  for (const value of values) count.set(value, (count.get(value) ?? 0) + 1);
  return count;
}

const maxName = 64;

function toolName(text: string): string {
  const words = text.slice(0, 1000).replace(/[^A-Za-z0-9_-]+/g, '_').replace(/^[_-]+|[_-]+$/g, '');
  const name = /^[A-Za-z]/.test(words) ? words : `op_${words}`;
  return name.length > maxName ? withHash(name, text) : name;
}

function withHash(name: string, text: string): string {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 10);
  return `${name.slice(0, maxName - 11)}_${hash}`;
}

export function chosen(operations: readonly Operation[], { tag, path, operation, select }: Selection): Operation[] {
  const ids = ({ id, name }: Operation): string[] => (id === null ? [name] : [id, name]);
  const meets = (globs: readonly string[] | undefined, texts: readonly string[]): boolean =>
    (globs ?? []).length === 0 || globs!.some((glob) => texts.some((text) => matchesGlob(glob, text)));
  return operations.filter(
    (one) =>
      meets(tag, one.tags) && meets(path, [one.path]) && meets(operation, ids(one)) && meets(select, [...one.tags, one.path, ...ids(one)]),
  );
}

/** Globs that no operation meets, so that a misspelt one is told. */
export function unmatched(operations: readonly Operation[], selection: Selection): string[] {
  return (['tag', 'path', 'operation', 'select'] as const).flatMap((kind) =>
    (selection[kind] ?? []).filter((glob) => chosen(operations, { [kind]: [glob] }).length === 0),
  );
}

/** Goes back to the last star only, so that no pattern takes more than the product of the two lengths. */
export function matchesGlob(glob: string, text: string): boolean {
  let [at, star, from] = [0, -1, 0];
  let index = 0;
  while (index < text.length) {
    if (glob[at] === '*') [star, from, at] = [at, index, at + 1];
    else if (at < glob.length && (glob[at] === '?' || glob[at] === text[index])) [at, index] = [at + 1, index + 1];
    else if (star >= 0) [from, index, at] = [from + 1, from + 1, star + 1];
    else return false;
  }
  while (glob[at] === '*') at++;
  return at === glob.length;
}
