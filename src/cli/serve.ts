import { startGateway } from '../main.js';
import { readArgs, readConfig, untilStopped } from './usage.js';

/** `callgate serve`: the gateway alone, on servers that are there. */
export async function serve(args: string[]): Promise<number> {
  const { values } = readArgs(args, { config: { type: 'string' } });
  const gateway = await startGateway(readConfig(values.config));
  console.error(`callgate is serving agents at ${gateway.agentUrl} and people at ${gateway.controlUrl}`);
  await untilStopped();
  await gateway.close();
  return 0;
}
