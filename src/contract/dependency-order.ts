/**
 * Members after those that they name. Not in the order of the text: the order of members is no part of the canonical source, so it
 * must not decide what a contract means. In a circle, one is taken all the same; compiling it reports the name that it lacks.
 */
export function inDependencyOrder<T>(members: Record<string, T>, namesIn: (member: T) => ReadonlySet<string>): [string, T][] {
  const waiting = new Map(Object.entries(members).sort(([a], [b]) => (a < b ? -1 : 1)));
  const named = new Map([...waiting].map(([name, member]) => [name, namesIn(member)]));
  const ordered: [string, T][] = [];
  const ready = ([name]: [string, T]): boolean => ![...waiting.keys()].some((other) => other !== name && named.get(name)!.has(other));
  while (waiting.size > 0) {
    const next = [...waiting].find(ready) ?? [...waiting][0]!;
    waiting.delete(next[0]);
    ordered.push(next);
  }
  return ordered;
}
