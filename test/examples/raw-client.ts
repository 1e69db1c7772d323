/** One request on one socket, with every byte that came back: what a pooled client would hide. */
import { connect } from 'node:net';

export interface RawReply {
  bytes: number;
  status: number | null;
  headers: Record<string, string>;
  text: string;
  ms: number;
}

export interface RawRequest { method?: string; headers?: Record<string, string>; body?: unknown; text?: string | Buffer }

export function raw(url: string, path: string, { method = 'GET', headers = {}, body, text }: RawRequest = {}): Promise<RawReply> {
  const { hostname, port } = new URL(url);
  const payload = Buffer.from(text ?? (body === undefined ? '' : JSON.stringify(body)));
  const lines = [`${method} ${path} HTTP/1.1`, 'host: retail', 'connection: close'];
  if (payload.length > 0) lines.push('content-type: application/json', `content-length: ${payload.length}`);
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(port), hostname);
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => undefined); // a reset is an end like any other; `close` follows
    socket.on('close', () => resolve(parse(Buffer.concat(chunks), performance.now() - startedAt)));
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    if (payload.length > 0) socket.write(payload);
  });
}

function parse(received: Buffer, ms: number): RawReply {
  const [head = '', ...rest] = received.toString('utf8').split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = Object.fromEntries(lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  }));
  const status = statusLine === '' ? null : Number(statusLine.split(' ')[1]);
  return { bytes: received.length, status, headers, text: rest.join('\r\n\r\n'), ms };
}
