/** The allowed name that a misspelt one most likely meant; undefined when nothing is close. */
export function nearest(name: string, allowed: Iterable<string>): string | undefined {
  const wanted = name.slice(0, 64).toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 2)) + 1;
  for (const candidate of allowed) {
    if (Math.abs(candidate.length - wanted.length) >= bestDistance) continue;
    const distance = editDistance(wanted, candidate.slice(0, 64).toLowerCase(), bestDistance);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Insertions, deletions, substitutions and swaps of neighbours (restricted Damerau-Levenshtein); `enough` as soon as it is no less. */
function editDistance(a: string, b: string, enough: number): number {
  let [before, last, row]: [number[], number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, j) => j), []];
  for (let i = 1; i <= a.length; i++) {
    row[0] = i;
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let distance = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) distance = Math.min(distance, before[j - 2]! + 1);
      row[j] = distance;
      least = Math.min(least, distance);
    }
    // A swap looks two rows back, so a row that is no better may still be followed by one that is: the margin of one.
    if (least > enough) return enough;
    [before, last, row] = [last, row, before];
  }
  return last[b.length]!;
}
