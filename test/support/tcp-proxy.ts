/** Stands before a Postgres and fails as networks do: refuses, cuts, or keeps connections open and says nothing any more. */
import net from 'node:net';

export interface TcpProxy {
  url: string;
  cut(): void;
  refuse(on: boolean): void;
  /** While on, whatever is open is silent for good, and whoever connects is accepted and never answered. */
  freeze(on: boolean): void;
  open(): number;
  /** Connections ever taken. */
  accepted(): number;
  close(): Promise<void>;
}

export async function openTcpProxy(databaseUrl: string): Promise<TcpProxy> {
  const target = new URL(databaseUrl);
  const sockets = new Set<net.Socket>();
  let accepted = 0;
  let refuses = false;
  let frozen = false;
  const watch = (socket: net.Socket): net.Socket => {
    sockets.add(socket);
    return socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  };
  const server = net.createServer((client) => {
    accepted += 1;
    watch(client);
    if (refuses) return void client.destroy();
    if (frozen) return void client.pause();
    const upstream = watch(net.connect(Number(target.port), target.hostname));
    client.pipe(upstream).pipe(client);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as net.AddressInfo).port);
  return {
    url: url.href,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    refuse(on) {
      refuses = on;
    },
    freeze(on) {
      frozen = on;
      if (on) for (const socket of sockets) socket.unpipe().pause();
    },
    open: () => sockets.size,
    accepted: () => accepted,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => { server.close(resolve); });
    },
  };
}
