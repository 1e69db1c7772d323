import { startGateway } from '../main.js';
import { servesForLong } from './long-lived.js';
import { readArgs, readConfig, untilStopped } from './usage.js';

/** `callgate serve`: the gateway alone, on servers that are there. */
export async function serve(args: string[]): Promise<number> {
  servesForLong();
  const { values } = readArgs(args, { config: { type: 'string' } });
  // Heard from the beginning: whoever is told to stop while it starts, or in the moment in which it says that it serves, drains as well.
  const stopped = untilStopped();
  const gateway = await startGateway(readConfig(values.config));
  console.error(`callgate is serving agents at ${gateway.agentUrl} and people at ${gateway.controlUrl}`);
  await stopped;
  await gateway.close();
  return 0;
}
