/**
 * The whole suite: node scripts/test.mjs [VITEST ARGUMENT...]
 * Static checks first, each counted like a test, then vitest; every check runs whatever the others say. The last line is
 * `N passed, N failed`. With arguments only vitest runs, with these. `skipped` tests are named: none goes unseen.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const checks = [
  ['types of source and tests', ['tsc', '-p', 'tsconfig.test.json']],
  ['lint', ['biome', 'lint', '--error-on-warnings']],
  ['architecture', ['node', 'scripts/check-architecture.mjs']],
  ['unused code and dependencies', ['knip']],
];
const run = ([command, ...args]) => spawnSync(command, args, { cwd: root, stdio: 'inherit' }).status === 0;

let passed = 0;
let failed = 0;
const only = process.argv.slice(2);
if (only.length === 0) {
  for (const [name, command] of checks) {
    console.log(`\n— ${name}`);
    if (run(command)) passed++;
    else {
      failed++;
      console.log(`✗ ${name}`);
    }
  }
}

const folder = mkdtempSync(join(tmpdir(), 'callgate-suite-'));
const report = join(folder, 'report.json');
const ok = run(['vitest', 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...only]);
try {
  const { numPassedTests, numFailedTests, numFailedTestSuites, testResults } = JSON.parse(readFileSync(report, 'utf8'));
  passed += numPassedTests;
  failed += numFailedTests;
  for (const { assertionResults } of testResults) {
    for (const { status, fullName } of assertionResults) if (status !== 'passed' && status !== 'failed') console.log(`skipped: ${fullName}`);
  }
  if (!ok && numFailedTests === 0) failed += Math.max(1, numFailedTestSuites);
} catch {
  failed++;
  console.log('vitest gave no report');
}
rmSync(folder, { recursive: true, force: true });
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
