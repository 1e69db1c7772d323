/**
 * Bytes that are no HTTP. They are answered 400 without a word of theirs, unless a call of the same connection is
 * still running: clients take the first response on a connection for the answer to their first request, so a 400
 * behind a pipelined call would tell them that a call failed which may just be taking effect. Then the connection is
 * cut, which every client takes for what it is: no answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { refuse } from '../errors.js';
import { problemAnswer } from './problem.js';

export const maxHeaderBytes = 16 * 1024;

export function socketGuard() {
  const running = new WeakMap<Socket, number>();
  return {
    began: (socket: Socket): void => void running.set(socket, (running.get(socket) ?? 0) + 1),
    ended: (socket: Socket): void => void running.set(socket, Math.max(0, (running.get(socket) ?? 0) - 1)),
    /** Of the header `Expect`, other than the one that HTTP itself meets. */
    unmetExpectation(_request: IncomingMessage, response: ServerResponse): void {
      const body = JSON.stringify(problemAnswer(refuse('MALFORMED_HTTP', 'The header `Expect` asks for what is not done here.')));
      response.writeHead(400, { 'content-type': 'application/problem+json', 'content-length': Buffer.byteLength(body), 'x-should-retry': 'false', connection: 'close' }).end(body);
    },
    clientError(error: NodeJS.ErrnoException, socket: Socket): void {
      if (error.code === 'ECONNRESET' || !socket.writable || (running.get(socket) ?? 0) > 0) socket.destroy();
      else socket.end(malformedResponse(error.code), () => socket.destroy());
    },
  };
}

function malformedResponse(code: string | undefined): string {
  const body = JSON.stringify(problemAnswer(refuse('MALFORMED_HTTP', malformation(code))));
  const head = [
    'HTTP/1.1 400 Bad Request',
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'x-should-retry: false',
    'connection: close',
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}

function malformation(code: string | undefined): string {
  if (code === 'HPE_HEADER_OVERFLOW') return `The head of the request is larger than ${maxHeaderBytes} bytes.`;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'The request did not arrive completely within its time.';
  return 'The bytes are not HTTP/1.1.';
}
