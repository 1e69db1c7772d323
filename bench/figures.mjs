/** Numbers from samples, and tables from numbers. */

/** Nearest rank; null without samples. */
export function percentiles(samples) {
  const sorted = Float64Array.from(samples).sort();
  const at = (share) => (sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)]);
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

export function median(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (sorted.length === 0) return null;
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** @param rows arrays of text; the first is the head. Every column but the first is set to the right. */
export function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const line = (row) => row.map((text, column) => (column === 0 ? text.padEnd(widths[column]) : text.padStart(widths[column]))).join('  ').trimEnd();
  return [line(rows[0]), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.slice(1).map(line)].join('\n');
}

/** How far apart the samples are, as a share of their median; null of fewer than two. */
export function spread(values) {
  const known = values.filter((value) => value !== null);
  return known.length < 2 ? null : (Math.max(...known) - Math.min(...known)) / median(known);
}

export const fixed = (value, digits) => (value === null || value === undefined || Number.isNaN(value) ? '–' : value.toFixed(digits));
