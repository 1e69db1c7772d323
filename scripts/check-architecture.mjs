/**
 * Holds the sources against the rules in .dependency-cruiser.cjs. Fails on a forbidden dependency, and also when too
 * little was seen: a parser that understands no TypeScript would otherwise find nothing wrong with anything.
 */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { cruise } from 'dependency-cruiser';
import extractTSConfig from 'dependency-cruiser/config-utl/extract-ts-config';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
const { forbidden, options } = createRequire(import.meta.url)('../.dependency-cruiser.cjs');

const { output } = await cruise(
  ['src'],
  { ...options, ruleSet: { forbidden }, validate: true },
  options.enhancedResolveOptions,
  { tsConfig: extractTSConfig(options.tsConfig.fileName) },
);
const sources = output.modules.filter(({ source }) => source.startsWith('src/'));
const typeDependencies = sources.flatMap(({ dependencies }) => dependencies).filter(({ dependencyTypes }) => dependencyTypes.includes('type-only'));

for (const { rule, from, to, cycle } of output.summary.violations) {
  const path = cycle ? cycle.map(({ name }) => name).join(' → ') : to;
  console.error(`${rule.severity} ${rule.name}: ${from} → ${path}`);
}
if (sources.length === 0) console.error('no module was cruised: the check saw nothing, so it proves nothing');
if (typeDependencies.length === 0) console.error('no type import was seen: interfaces would pass every rule unnoticed');

const failed = output.summary.violations.length > 0 || sources.length === 0 || typeDependencies.length === 0;
if (!failed) console.log(`architecture: ${sources.length} modules, ${output.summary.totalDependenciesCruised} dependencies, no violation`);
process.exitCode = failed ? 1 : 0;
