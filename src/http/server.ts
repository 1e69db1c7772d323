/** One listener, without its routes: bounded sockets, a strict Ajv, problem documents for every error, a metric per request. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify, { type FastifyBaseLogger, type FastifyInstance, type RawServerDefault } from 'fastify';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TlsOptions } from 'node:tls';
import { failureHandler, noSuchRoute } from './failures.js';
import type { Log, Plane, RequestMetrics } from '../ports.js';
import { sendRefusal } from './reply.js';
import { maxHeaderBytes, socketGuard } from './sockets.js';
import { refuse } from '../errors.js';

export interface HttpLimits {
  bodyBytes: number;
  /** Nesting of a body that http reads itself. */
  depth: number;
  /** The longest `Prefer: wait`, whatever a caller asks for. */
  maxPatienceMs: number;
  /** Of one listener, idle ones included; a connection beyond is closed at once. */
  connections: number;
  /** Until the head of a request, and the whole of it, must have arrived. The time of the answer is not bounded here. */
  headersTimeoutMs: number;
  requestTimeoutMs: number;
}

/** semantics.md section 10. */
export const defaultLimits: HttpLimits = {
  bodyBytes: 256 * 1024,
  depth: 32,
  maxPatienceMs: 45_000,
  connections: 10_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
};

export interface ServerParts {
  limits: HttpLimits;
  log: Log;
  metrics: RequestMetrics;
  /** Absent: plain HTTP, for what stands in front or beside. */
  tls?: TlsOptions | undefined;
}

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

const hostless = refuse('MALFORMED_HTTP', 'The request has no header `Host`.');

export function createServer(plane: Plane, { limits, log, metrics, tls }: ServerParts): App {
  const sockets = socketGuard();
  const onFailure = failureHandler(plane, limits.bodyBytes, log);
  const http = {
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: limits.headersTimeoutMs,
    connectionsCheckingInterval: Math.min(5000, limits.headersTimeoutMs),
    requireHostHeader: false, // asked below, for an answer in our words
  };
  const app = fastify({
    // Requests are logged by nobody and counted by a metric; failures are logged by `failureHandler`, without headers.
    logger: false,
    bodyLimit: limits.bodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    // Its type says http for both; what is used of the server is the same.
    ...((tls ? { https: { ...http, ...tls } } : { http }) as { http: typeof http }),
    // While closing, the gate itself says `DRAINING` as a problem document; Fastify's own 503 is not one.
    return503OnClosing: false,
    // A session id of 512 bytes, percent-encoded.
    routerOptions: { maxParamLength: 1536 },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false } },
    clientErrorHandler: sockets.clientError,
    frameworkErrors: onFailure,
  }).withTypeProvider<TypeBoxTypeProvider>();

  app.server.maxConnections = limits.connections;
  app.removeAllContentTypeParsers();
  app.setErrorHandler(onFailure);
  app.setNotFoundHandler(noSuchRoute);
  app.server.on('checkExpectation', sockets.unmetExpectation);
  app.addHook('onRequest', (request, reply, next) => {
    sockets.began(request.raw.socket);
    if (request.raw.headers.host === undefined && request.raw.httpVersion === '1.1') sendRefusal(reply.header('connection', 'close'), hostless);
    else next();
  });
  // A connection that would be kept alive after its answer would hold a closing listener for the whole time of the drain.
  let closing = false;
  app.addHook('preClose', (done) => {
    closing = true;
    done();
  });
  app.addHook('onSend', (_request, reply, payload, next) => {
    if (closing) reply.header('connection', 'close');
    next(null, payload);
  });
  app.addHook('onResponse', (request, reply, next) => {
    sockets.ended(request.raw.socket);
    const route = request.routeOptions.url ?? 'unmatched';
    metrics.observeRequest({ plane, method: request.method, route, status: reply.statusCode, seconds: reply.elapsedTime / 1000 });
    next();
  });
  return app;
}
