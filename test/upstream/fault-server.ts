/** A raw TCP server that keeps its own books of what arrived, so that `sent` is judged by the other side. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { Credentials } from '../../src/upstream/credentials.js';
import type { RenderedRequest, UpstreamPlan } from '../../src/contract/plan.js';

export interface Arrival {
  attempt: string;
  head: string;
  body: string;
  socket: Socket;
  /** 1 for the first request of a connection. */
  nthOfConnection: number;
}

export class FaultServer {
  /** Per attempt id: how many times its head arrived, complete. */
  readonly heads = new Map<string, number>();
  readonly arrivals: Arrival[] = [];
  /** Every byte of every connection, as text. */
  bytes = '';
  connections = 0;
  onConnection: (socket: Socket) => void = () => {};
  onRequest: (arrival: Arrival) => void = ({ socket }) => reply(socket, '{"ok":true}');
  /** Called on the first head bytes, body complete or not. */
  onHead: (socket: Socket, attempt: string) => void = () => {};
  private readonly sockets = new Set<Socket>();

  private constructor(private readonly server: Server) {}

  static async start(host = '127.0.0.1', port = 0): Promise<FaultServer> {
    const server = createServer();
    const books = new FaultServer(server);
    server.on('connection', (socket) => books.accept(socket));
    await once(server.listen(port, host), 'listening');
    return books;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  times(attempt: string): number {
    return this.heads.get(attempt) ?? 0;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }

  private accept(socket: Socket): void {
    this.connections++;
    this.sockets.add(socket);
    socket.on('close', () => this.sockets.delete(socket)).on('error', () => {});
    this.onConnection(socket);
    let pending = '';
    let requests = 0;
    let announced = false;
    socket.on('data', (chunk) => {
      this.bytes += chunk.toString('latin1');
      pending += chunk.toString('latin1');
      for (;;) {
        const end = pending.indexOf('\r\n\r\n');
        if (end < 0) return;
        const head = pending.slice(0, end);
        const attempt = /\r\ncallgate-attempt: ([^\r]+)/.exec(head)?.[1] ?? '';
        if (!announced) {
          announced = true;
          this.heads.set(attempt, this.times(attempt) + 1);
          this.onHead(socket, attempt);
        }
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
        if (pending.length < end + 4 + length) return;
        const body = pending.slice(end + 4, end + 4 + length);
        pending = pending.slice(end + 4 + length);
        announced = false;
        const arrival = { attempt, head, body, socket, nthOfConnection: ++requests };
        this.arrivals.push(arrival);
        this.onRequest(arrival);
      }
    });
  }
}

export const reply = (socket: Socket, body: string, status = '200 OK', headers = 'content-type: application/json\r\n') =>
  socket.write(`HTTP/1.1 ${status}\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);

export const planFor = (origin: string, overrides: Partial<UpstreamPlan> = {}): UpstreamPlan => ({
  service: 'retail', origin, auth: null, concurrency: 8, connectTimeoutMs: 1000, deadlineMs: 2000, callbacks: null, ...overrides,
});

/** Of services that ask for none. */
export const noCredentials: Credentials = { read: () => { throw new Error('nobody has a credential'); }, refused: () => undefined };

export const post = (origin: string, body = '{"amount":1}', path = '/credits'): RenderedRequest => ({
  method: 'POST', url: origin + path, headers: {}, body,
});

export const get = (origin: string, path = '/orders/1'): RenderedRequest => ({ method: 'GET', url: origin + path, headers: {}, body: null });

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

let minted = 0;
export const mintAttempt = () => `attempt-${process.pid}-${++minted}`;
