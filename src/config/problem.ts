/** What is wrong with a configuration, in full: where, what, and how to mend it. */
export interface ConfigProblem {
  /** `callgate.yaml:3:5`, or the name of an environment variable. */
  source: string;
  /** The value as it was written; null where there is none or it may be a secret. */
  value: string | null;
  message: string;
  mend: string;
}

/** One paragraph for each problem, for a terminal. */
export function describeProblems(problems: readonly ConfigProblem[]): string {
  return problems.map(({ source, value, message, mend }) =>
    `${source}: ${message}${value === null ? '' : ` (it is ${value})`}\n  ${mend}`).join('\n');
}
