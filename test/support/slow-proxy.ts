/** Stands before a server and hands every byte on late, in both directions, in order. */
import { once } from 'node:events';
import net from 'node:net';

export interface SlowProxy { url: string; close(): Promise<void> }

export async function openSlowProxy(target: string, delayMs: number): Promise<SlowProxy> {
  const url = new URL(target);
  const sockets = new Set<net.Socket>();
  const watch = (socket: net.Socket): net.Socket => {
    sockets.add(socket);
    return socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  };
  const server = net.createServer((near) => {
    watch(near);
    const far = watch(net.connect(Number(url.port), url.hostname));
    for (const [from, to] of [[near, far], [far, near]] as const) {
      from.on('data', (chunk: Buffer) => setTimeout(() => to.write(chunk), delayMs));
      from.on('close', () => to.destroy());
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  url.port = String((server.address() as net.AddressInfo).port);
  return {
    url: url.href,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
