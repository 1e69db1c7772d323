const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `250ms`, `10s`, `5m`, `24h`, `7d` in milliseconds. The contract's JSON Schema admits no other form. */
export function durationMs(text: string): number {
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text);
  if (!match) throw new RangeError(`\`${text}\` is not a duration such as \`10s\` or \`5m\``);
  return Number(match[1]) * unitsMs[match[2] as keyof typeof unitsMs];
}
