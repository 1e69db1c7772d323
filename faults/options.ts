/** `npm run test:faults -- [--operations N] [--kills N] [--replicas N] [--minutes N] [--seed S] [--no-failover]` */
import { parseArgs } from 'node:util';

export interface Options { operations: number; kills: number; replicas: number; seed: number; failover: boolean; minutes: number }

export const usage = `npm run test:faults -- [option ...]
  --operations N   calls that are meant (300)
  --kills N        replicas that are killed with -9; other disturbances in proportion (6)
  --replicas N     gateways (2)
  --minutes N      again and again, with the next seed each time, until the time is up
  --seed S         repeats what is proposed, and when what is disturbed (random)
  --no-failover    without the failover of Postgres to a synchronous standby in the middle`;

/** @throws Error with a sentence for people. */
export function readOptions(args: string[]): Options {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args, options: { operations: text, kills: text, replicas: text, minutes: text, seed: text, 'no-failover': { type: 'boolean' } } });
  const number = (name: 'operations' | 'kills' | 'replicas' | 'minutes' | 'seed', otherwise: number, least: number): number => {
    const given = values[name];
    const value = given === undefined ? otherwise : Number(given);
    if (Number.isInteger(value) && value >= least) return value;
    throw new Error(`--${name} is \`${given}\`; it must be a whole number from ${least}.`);
  };
  return {
    operations: number('operations', 300, 1), kills: number('kills', 6, 0), replicas: number('replicas', 2, 1), minutes: number('minutes', 0, 0),
    seed: number('seed', Math.floor(Math.random() * 2 ** 31), 0), failover: values['no-failover'] !== true,
  };
}
