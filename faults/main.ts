/** The fault suite as a command; ends with 1 on any violation, and when nothing was injected. */
import { type Options, readOptions, usage } from './options.js';
import { command, injectedNothing, report } from './report.js';
import { run } from './run.js';

let options: Options;
try {
  options = readOptions(process.argv.slice(2));
} catch (error) {
  console.error(`${(error as Error).message}\n\n${usage}`);
  process.exit(2);
}

const until = performance.now() + options.minutes * 60_000;
let failed = false;
for (let seed = options.seed; ; seed++) {
  const these = { ...options, seed };
  console.log(`\n${command(these)}`);
  const sum = await run(these, console.log);
  console.log(report(sum));
  failed ||= sum.violations.length > 0 || injectedNothing(sum);
  if (performance.now() >= until) break;
}
process.exit(failed ? 1 : 0);
