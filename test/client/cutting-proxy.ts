/** Stands before a gateway and cuts connections as a script says; bytes go through untouched otherwise. */
import net from 'node:net';
import { afterEach } from 'vitest';

/**
 * `before`: nothing of the request gets through. `request`: its beginning does. `sent`: all of it, and the gateway's answer reaches nobody.
 * `answer`: it is cut in the middle.
 */
export type Cut = 'before' | 'request' | 'sent' | 'answer' | 'none';

export interface CuttingProxy { url: string; requests(): number }

const open: (() => void)[] = [];
afterEach(() => { for (const close of open.splice(0)) close(); });

/** @param script one for each request, over all connections; then none is cut */
export async function cuttingProxy(target: string, ...script: Cut[]): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<net.Socket>();
  let requests = 0;
  const server = net.createServer((client) => {
    const gateway = net.connect(Number(port), hostname);
    let cut: Cut = 'none';
    for (const socket of [client, gateway]) sockets.add(socket.on('error', () => undefined));
    client.on('data', (bytes) => {
      if (/^(GET|POST) \//.test(bytes.toString('latin1', 0, 8))) cut = script[requests++] ?? 'none';
      if (cut === 'before') client.destroy();
      else if (cut === 'request') gateway.write(bytes.subarray(0, bytes.length - 10), () => client.destroy());
      else gateway.write(bytes);
    });
    gateway.on('data', (bytes) => {
      if (cut === 'sent') client.destroy();
      else if (cut === 'answer') client.end(bytes.subarray(0, bytes.length - 10), () => client.destroy());
      else client.write(bytes);
    });
    client.on('close', () => gateway.destroy());
    gateway.on('close', () => client.destroy());
  });
  open.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return { url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`, requests: () => requests };
}
