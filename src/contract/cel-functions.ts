/** The functions of the contract language that CEL itself does not have, or has in a form that cannot be trusted. */
import { type ASTNode, Environment, serialize } from '@marcbachmann/cel-js';
import { registerDecimals } from './cel-decimal.js';
import { parseTimestamp } from './cel-rules.js';
import { linearPattern } from './linear-pattern.js';

const durations = new Environment({}).registerVariable('text', 'string');

/** Before any name is registered; every place clones it. */
export function baseEnvironment(limits: object): Environment {
  // Literals may mix types, so that an answer can be put together: `{"id": result.id, "amount": result.amount}`.
  const env = new Environment({ limits, homogeneousAggregateLiterals: false })
    .registerFunction('string.linearMatches(string): bool', matches)
    .registerFunction('exactTimestamp(string): google.protobuf.Timestamp', exactTimestamp)
    .registerFunction('exactDuration(string): google.protobuf.Duration', exactDuration)
    // Its name stands for what it gives: cel-rules.ts puts the variable of the result there.
    .registerFunction('last(A): A', (result: unknown) => result)
    .registerFunction('indices(list<A>): list<int>', (list: unknown[]) => list.map((_, index) => BigInt(index)))
    .registerFunction('sum(list<int>): int', (list: bigint[]) => exact(list.reduce((total, each) => total + each, 0n)))
    .registerFunction('sum(list<double>): double', (list: number[]) => list.reduce((total, each) => total + each, 0));
  // Equality of objects is nothing that a contract should rest on, so these take lists of plain values only.
  for (const type of ['string', 'int', 'bool']) {
    env.registerFunction(`count(list<${type}>, ${type}): int`, (list: unknown[], value: unknown) => BigInt(list.filter((each) => each === value).length));
    env.registerFunction(`distinct(list<${type}>): list<${type}>`, (list: unknown[]) => [...new Set(list)]);
  }
  registerDecimals(env);
  return env;
}

/** The pattern is a literal of the contract. */
function matches(text: string, pattern: string): boolean {
  return linearPattern(pattern).test(text);
}

function exactTimestamp(text: string): Date {
  const date = parseTimestamp(text);
  if (!date) throw new TypeError('the text is not a date and time that exists');
  return date;
}

/** Ten thousand years, the bound of the specification: beyond it a sum with a date would be no date, of which every comparison is false. */
const maxDurationSeconds = 315_576_000_000n;

function exactDuration(text: string): object {
  const duration = durations.evaluate('duration(text)', { text }) as { seconds: bigint };
  if (duration.seconds > maxDurationSeconds || duration.seconds < -maxDurationSeconds) throw new RangeError('the duration is longer than 10,000 years');
  return duration;
}

/** Why a part of an expression that reads nothing can never be evaluated; undefined when it can. */
export function constantProblem(node: ASTNode, env: Environment): string | undefined {
  try {
    env.evaluate(serialize(node));
    return undefined;
  } catch (thrown) {
    return (thrown as Error).message.split('\n')[0];
  }
}

/** As CEL's own arithmetic: 64 bits or a failure. */
function exact(value: bigint): bigint {
  if (BigInt.asIntN(64, value) !== value) throw new RangeError(`integer overflow: ${value}`);
  return value;
}
