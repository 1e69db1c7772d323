/** Stands between the gateways and Postgres, so that it can be cut off and can be another server after a failover. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Proxy {
  /** The URL of `target` by way of the proxy. */
  url: string;
  /** Connections that are made from now on go there; those that are open stay where they are. */
  turnTo(port: number): void;
  /** Breaks every open connection. */
  cut(): void;
  close(): Promise<void>;
}

export async function openProxy(target: string): Promise<Proxy> {
  let port = Number(new URL(target).port);
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect({ host: '127.0.0.1', port });
    for (const [one, other] of [[near, far], [far, near]] as const) {
      open.add(one);
      one.on('error', () => undefined).on('close', () => {
        open.delete(one);
        other.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.port = String((server.address() as AddressInfo).port);
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: url.href,
    turnTo(next) { port = next; },
    cut,
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
