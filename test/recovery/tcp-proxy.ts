/** A TCP proxy in front of a server, that cuts, refuses or swallows as a test says. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface TcpProxy {
  /** The address of `url` with the proxy's port. */
  url: string;
  /** From now on every connection is cut and refused. */
  down(): void;
  up(): void;
  /**
   * The next chunk towards the server that contains `marker` is forwarded, what the server then says is swallowed, and after `afterMs` every
   * connection is cut; with `staysDown`, refused too. Resolves at the cut.
   */
  cutAfter(marker: string, afterMs: number, staysDown?: boolean): Promise<void>;
  close(): Promise<void>;
}

export async function openTcpProxy(url: string): Promise<TcpProxy> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let isDown = false;
  let trap: { marker: string; sprung(): void } | null = null;
  let deaf = false;

  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  const server = createServer((near) => {
    if (isDown) return void near.destroy();
    const far = connect({ host: target.hostname, port: Number(target.port) });
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        (socket === near ? far : near).destroy();
      });
    }
    near.on('data', (chunk: Buffer) => {
      far.write(chunk);
      if (trap && chunk.includes(trap.marker)) {
        deaf = true;
        trap.sprung();
        trap = null;
      }
    });
    far.on('data', (chunk: Buffer) => {
      if (!deaf) near.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const through = new URL(url);
  through.hostname = '127.0.0.1';
  through.port = String((server.address() as AddressInfo).port);

  return {
    url: through.href,
    down() {
      isDown = true;
      cut();
    },
    up() { isDown = false; },
    cutAfter: (marker, afterMs, staysDown = false) => new Promise((resolve) => {
      trap = {
        marker,
        sprung: () => setTimeout(() => {
          isDown = staysDown;
          cut();
          deaf = false;
          resolve();
        }, afterMs),
      };
    }),
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
