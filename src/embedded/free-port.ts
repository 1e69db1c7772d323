import { createServer } from 'node:net';

/** A port of 127.0.0.1 that was free a moment ago. Another program may take it before it is used: be ready to ask again. */
export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
