/** A socket to one listener, and what comes back over it, as responses. */
import { connect, type Socket } from 'node:net';

export interface Reply { status: number; head: string; body: string }

/**
 * Writes the bytes and reads until the listener ends the connection. When nothing has come for a while this side is ended, as whoever has no more
 * to say does: what is answered is what was a request, and a listener that waits for the rest of one has then heard that there is none.
 * @throws Error for a connection that is still open long afterwards
 */
export function exchange(port: number, bytes: Buffer, quietMs = 60): Promise<{ replies: Reply[]; rest: string }> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let ended = false;
    socket.setTimeout(quietMs, () => {
      if (ended) {
        socket.destroy();
        reject(new Error(`still open ${longestMs} ms after its end was said: ${JSON.stringify(bytes.toString('latin1').slice(0, 300))}`));
      } else {
        ended = true;
        socket.setTimeout(longestMs);
        socket.end();
      }
    });
    socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => undefined).on('close', () => resolve(readReplies(Buffer.concat(chunks).toString('latin1'))));
  });
}

const longestMs = 20_000;

/** Every response must be whole and bounded by its length; what is left over is none. */
export function readReplies(text: string): { replies: Reply[]; rest: string } {
  const replies: Reply[] = [];
  let rest = text;
  for (;;) {
    const found = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest);
    if (!found) return { replies, rest };
    const [whole, status = '', head = ''] = found;
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0);
    replies.push({ status: Number(status), head, body: rest.slice(whole.length, whole.length + length) });
    rest = rest.slice(whole.length + length);
  }
}

/** Connected, with what it was sent; kept open. */
export function holding(port: number, text: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text, 'latin1', () => resolve(socket)));
    socket.on('error', reject);
  });
}
