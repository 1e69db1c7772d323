/** A server that answers as it is told, and fails as networks and proxies do. Real sockets; every request is kept as it came. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach } from 'vitest';
import type { Answer } from '../../src/model.js';

export type Act =
  /** A whole answer; an object is sent as JSON. */
  | { status?: number; headers?: Record<string, string>; body: object | string }
  /** The connection is closed: before the request is read, after it was read, or in the middle of the answer with or without an announced length. */
  | { closes: 'unread' | 'read' | 'half' | 'half-unannounced'; body?: object }
  | { silent: true };

export interface Got { method: string; path: string; headers: http.IncomingHttpHeaders; body: string; at: number }

export interface ScriptedGateway { url: string; got: Got[]; posts(): Got[]; close(): Promise<void> }

const open: http.Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** The last act is repeated for ever. */
export async function scriptedGateway(...script: (Act | ((got: Got) => Act))[]): Promise<ScriptedGateway> {
  const got: Got[] = [];
  const server = http.createServer(async (request, response) => {
    const one = script[Math.min(got.length, script.length - 1)] as Act | ((got: Got) => Act);
    const kept: Got = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body: '', at: performance.now() };
    got.push(kept);
    if (typeof one === 'object' && 'closes' in one && one.closes === 'unread') return void request.socket.destroy();
    for await (const chunk of request) kept.body += String(chunk);
    perform(response, typeof one === 'function' ? one(kept) : one);
  });
  open.push(server);
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    got,
    posts: () => got.filter(({ method }) => method === 'POST'),
    close: () => new Promise((resolve) => { server.close(() => resolve()); }),
  };
}

function perform(response: http.ServerResponse, act: Act): void {
  if ('silent' in act) return;
  if ('closes' in act) {
    const text = JSON.stringify(act.body ?? executed);
    if (act.closes === 'read') return void response.socket?.destroy();
    response.writeHead(200, { 'content-type': 'application/json', ...(act.closes === 'half' ? { 'content-length': text.length } : { connection: 'close' }) });
    if (act.closes === 'half') response.write(text.slice(0, text.length / 2), () => response.socket?.destroy());
    else {
      // As HTTP/1.0 does it: the end of the connection is the end of the body, so a cut looks like an end.
      response.useChunkedEncodingByDefault = false;
      response.end(text.slice(0, text.length / 2));
    }
    return;
  }
  const json = typeof act.body === 'object';
  response.writeHead(act.status ?? (json && isRefusal(act.body as Partial<Answer>) ? (act.body as { status: number }).status : 200), {
    'content-type': json ? 'application/json' : 'text/html; charset=utf-8', ...act.headers,
  });
  response.end(json ? JSON.stringify(act.body) : act.body);
}

const isRefusal = ({ status }: Partial<Answer>): boolean => typeof status === 'number';

export const executed: Answer = {
  disposition: 'executed', next_action: 'continue', call_id: 'c-1', operation_id: 'op_1', tool: 'issue_credit',
  contract: { version: '3.1.0', digest: 'sha256:00' }, outcome: 'committed', verified: true, evidence_of_change: true,
  result: { receipt_id: 'CR-1', amount: 2500 }, states: { 'order:O-417': 'DELIVERED' }, legal_actions: ['issue_credit'],
  receipts: { decision: 'rcp_1', effect: 'rcp_2' }, repaired: [], retry_after_ms: null, trace: [],
};

/** May have happened. Asks for the shortest pause. */
export const unknown: Answer = {
  ...executed, disposition: 'unknown', next_action: 'wait', outcome: 'unknown', verified: false, evidence_of_change: false, result: null, retry_after_ms: 0,
};

export function refusal(change: Partial<Answer> & Pick<Answer, 'disposition' | 'next_action' | 'status' | 'code'>): Answer {
  return {
    ...executed, operation_id: null, outcome: null, verified: false, evidence_of_change: false, result: null, states: {}, legal_actions: [],
    type: `/docs/problems/${change.code}`, title: 'title', detail: 'detail', errors: [], ...change,
  };
}

export const unavailable = refusal({ disposition: 'unavailable', next_action: 'retry', status: 503, code: 'UNAVAILABLE', retry_after_ms: 0 });
export const inProgress = refusal({ disposition: 'in_progress', next_action: 'wait', status: 409, code: 'IN_PROGRESS', retry_after_ms: 0 });

export const credit = { session_id: 's-1', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 2500, currency: 'GBP' } };
