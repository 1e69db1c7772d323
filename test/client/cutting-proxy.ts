/** Stands before a gateway and cuts connections as a script says; bytes go through untouched otherwise. */
import net from 'node:net';
import { afterEach } from 'vitest';

/**
 * `connect`: nothing gets through. `request`: in the middle of the request. `sent`: after the request, before the first byte of the
 * answer, which the gateway then gives to nobody. `answer`: in the middle of the answer.
 */
export type Cut = 'connect' | 'request' | 'sent' | 'answer' | 'none';

export interface CuttingProxy { url: string; connections(): number; script: Cut[] }

const open: (() => void)[] = [];
afterEach(() => { for (const close of open.splice(0)) close(); });

/** A cut ends its connection, so that the next request opens the next one. */
export async function cuttingProxy(target: string, ...script: Cut[]): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<net.Socket>();
  let connections = 0;
  const server = net.createServer((client) => {
    const cut = script[connections++] ?? 'none';
    sockets.add(client);
    client.on('error', () => undefined);
    if (cut === 'connect') return void client.destroy();
    const gateway = net.connect(Number(port), hostname);
    sockets.add(gateway);
    gateway.on('error', () => undefined).on('close', () => client.destroy());
    // The gateway is left alone with what it was asked: it finds out only when it answers.
    client.on('close', () => { if (cut === 'none' || cut === 'request') gateway.destroy(); });
    client.on('data', (bytes) => {
      if (cut === 'request') {
        gateway.write(bytes.subarray(0, bytes.length - 10));
        client.destroy();
      } else gateway.write(bytes);
    });
    gateway.on('data', (bytes) => {
      if (cut === 'sent') return client.destroy();
      if (cut === 'answer') return client.end(bytes.subarray(0, bytes.length - 10), () => client.destroy());
      client.write(bytes);
    });
  });
  open.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return { url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`, connections: () => connections, script };
}
