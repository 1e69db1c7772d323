const longest = 64;
/** A list that is longer is looked through no further: a suggestion is a courtesy, and thousands of misspelt names each ask for one. */
const mostCandidates = 5_000;

/** The allowed name that a misspelt one most likely meant; undefined when nothing is close. */
export function nearest(name: string, allowed: Iterable<string>): string | undefined {
  return nearestFew(name, allowed, 1)[0];
}

/** The closest first, of equally close ones the first; in one pass, since a turn may misspell as many names as it has calls. */
export function nearestFew(name: string, allowed: Iterable<string>, count: number): string[] {
  const wanted = name.slice(0, longest).toLowerCase();
  const letters = lettersOf(wanted);
  const found: { candidate: string; distance: number }[] = [];
  let enough = Math.max(1, Math.floor(wanted.length / 2)) + 1;
  let looked = 0;
  for (const candidate of allowed) {
    if (++looked > mostCandidates || enough <= 1) break;
    if (candidate === name || Math.abs(candidate.length - wanted.length) >= enough) continue;
    const close = candidate.slice(0, longest).toLowerCase();
    if (Math.max(wanted.length, close.length) - inCommon(letters, close) >= enough) continue;
    const distance = editDistance(wanted, close, enough);
    if (distance >= enough) continue;
    found.push({ candidate, distance });
    found.sort((a, b) => a.distance - b.distance);
    if (found.length > count) found.pop();
    if (found.length === count) enough = Math.min(enough, found.at(-1)?.distance ?? enough);
  }
  return found.map(({ candidate }) => candidate);
}

const buckets = 128;

function lettersOf(text: string): Int8Array {
  const letters = new Int8Array(buckets);
  for (let i = 0; i < text.length; i++) letters[text.charCodeAt(i) % buckets]!++;
  return letters;
}

/** Letters that two names share, wherever they stand: whatever else they are long is at least so many edits. */
function inCommon(wanted: Int8Array, text: string): number {
  const left = wanted.slice();
  let common = 0;
  for (let i = 0; i < text.length; i++) if (left[text.charCodeAt(i) % buckets]!-- > 0) common++;
  return common;
}

/** What two names begin and end with alike costs nothing, and names of one catalogue are alike for the most part. */
function editDistance(a: string, b: string, enough: number): number {
  let start = 0;
  while (start < a.length && a.charCodeAt(start) === b.charCodeAt(start)) start++;
  let [endA, endB] = [a.length, b.length];
  while (endA > start && endB > start && a.charCodeAt(endA - 1) === b.charCodeAt(endB - 1)) [endA, endB] = [endA - 1, endB - 1];
  return Math.max(endA, endB) - start <= 1 ? Math.max(endA, endB) - start : distanceOf(a.slice(start, endA), b.slice(start, endB), enough);
}

/** Insertions, deletions, substitutions and swaps of neighbours (restricted Damerau-Levenshtein); `enough` as soon as it is no less. */
function distanceOf(a: string, b: string, enough: number): number {
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
