/** The configuration of Callgate: what there is to set is in settings.ts, how it is read in load.ts. */
export { loadConfig } from './load.js';
export { type ConfigProblem, describeProblems } from './problem.js';
export { renderConfigJsonSchema, renderConfigReference } from './publish.js';
export type { Config } from './settings.js';
