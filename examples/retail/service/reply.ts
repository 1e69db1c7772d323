/** Puts an answer on the socket: whole, damaged, or not at all. */
import type { ServerResponse } from 'node:http';
import type { Answer } from './answer.js';

export function send(res: ServerResponse, answer: Answer): void {
  sendText(res, answer, JSON.stringify(answer.body));
}

/** The closing brace becomes a comma; status, length and headers are in order. */
export function sendBadJson(res: ServerResponse, answer: Answer): void {
  sendText(res, answer, `${JSON.stringify(answer.body).slice(0, -1)},`);
}

/** Declares the whole body, sends half of it and closes. */
export function sendCut(res: ServerResponse, answer: Answer): void {
  const bytes = Buffer.from(JSON.stringify(answer.body));
  res.writeHead(answer.status, headersFor(answer, bytes.length));
  res.write(bytes.subarray(0, bytes.length >> 1), () => drop(res));
}

/** Closes the connection; when nothing was sent before, the client sees not one byte. */
export function drop(res: ServerResponse): void {
  res.req.socket.destroy();
}

function sendText(res: ServerResponse, answer: Answer, text: string): void {
  res.writeHead(answer.status, headersFor(answer, Buffer.byteLength(text))).end(text);
}

function headersFor(answer: Answer, length: number): Record<string, string | number> {
  return { 'content-type': 'application/json', 'content-length': length, ...answer.headers };
}
