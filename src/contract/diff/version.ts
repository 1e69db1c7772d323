/** Semantic versions, as far as it matters which part of one has moved. */

export type Part = 'major' | 'minor' | 'patch';

const order: readonly Part[] = ['major', 'minor', 'patch'];

/** The first part that has moved forwards; null when the version stood still, went back, or is not a version. */
export function movedPart(old: string, now: string): Part | null {
  const [before, after] = [parse(old), parse(now)];
  if (!before || !after) return null;
  for (const [index, part] of order.entries()) {
    const difference = after.numbers[index]! - before.numbers[index]!;
    if (difference !== 0) return difference > 0 ? part : null;
  }
  return before.pre !== after.pre && before.pre !== '' && (after.pre === '' || after.pre > before.pre) ? 'patch' : null;
}

/** Whether what moved is enough: a major step covers everything. */
export function covers(moved: Part | null, needed: Part): boolean {
  return moved !== null && order.indexOf(moved) <= order.indexOf(needed);
}

/** The lowest version with which a change may be published. */
export function nextVersion(old: string, needed: Part): string | null {
  const before = parse(old);
  if (!before) return null;
  const [major, minor, patch] = before.numbers;
  return needed === 'major' ? `${major + 1}.0.0` : needed === 'minor' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`;
}

function parse(version: string): { numbers: [number, number, number]; pre: string } | null {
  const match = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?$/.exec(version);
  return match ? { numbers: [Number(match[1]), Number(match[2]), Number(match[3])], pre: match[4] ?? '' } : null;
}
