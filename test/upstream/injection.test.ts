/**
 * What a model writes into an argument must not choose another resource, host, header, parameter or request: judged by what servers make of the
 * bytes that arrive, one that takes them apart by itself and one that parses as Node does.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { EvaluationError, type ToolPlan } from '../../src/contract/plan.js';
import { openEgress, readAllowedUpstreams } from '../../src/upstream/egress.js';
import type { Upstream } from '../../src/upstream/exchange.js';
import { createUpstream } from '../../src/upstream/sender.js';
import { catalogueOf, folderWith } from '../contract/fixture.js';
import { FaultServer, mintAttempt, noCredentials } from './fault-server.js';

const contract = `
callgate: 1
service: files
upstream: { base_url: "\${FILES_URL}/api" }
tools:
  look:
    version: 1.0.0
    effect: none
    purpose: Look at a file.
    args: { type: object, properties: { path: { type: string, maxLength: 500 }, query: { type: string, maxLength: 500 }, head: { type: string, maxLength: 500 } }, required: [path, query, head] }
    result: { type: object, properties: { ok: { type: boolean } }, required: [ok] }
    http: { method: GET, path: "/files/{args.path}/meta", query: { q: "{args.query}", fixed: one }, headers: { X-Note: "n-{args.head}" } }
`;

interface Seen { method: string; url: string; headers: IncomingMessage['headers']; raw: string[] }

describe('hostile text in a path, a query and a header', () => {
  let node: Server;
  let raw: FaultServer;
  let upstream: Upstream;
  const seen: Seen[] = [];
  beforeAll(async () => {
    raw = await FaultServer.start();
    node = createServer((request, response) => {
      seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, raw: request.rawHeaders });
      response.setHeader('content-type', 'application/json').end('{"ok":true}');
    });
    await once(node.listen(0, '127.0.0.1'), 'listening');
    upstream = createUpstream({ credentials: noCredentials, egress: openEgress({ allowed: readAllowedUpstreams('files=127.0.0.1') }), maxResponseBytes: 65_536, maxHeaderBytes: 8_192 });
  });
  afterAll(async () => {
    await upstream.close();
    node.close();
    await raw.close();
  });
  const toolAt = (origin: string): ToolPlan => catalogueOf(compileFolder(folderWith(contract.replace(/policies:.*\n/, '')).dir, { FILES_URL: origin })).tools.get('look') as ToolPlan;

  const piece = fc.constantFrom(
    '..', '.', '/', '//', '\\', '%2f', '%2F', '%2e', '%2e%2e', '%00', '%', '@', ':', '#', '?', '&', '=', ';', ' ', '\t', '\r\n', '\n', '\r', '\0', '\u2028', '\u0085', '\u{1f600}', 'é', 'ı', '\ufeff',
    '\u202e', '．．', '／', '\ud800', 'http://evil.test', '\r\nhost: evil.test', '\r\n\r\nGET /admin HTTP/1.1\r\n', 'transfer-encoding: chunked', 'a', 'admin', '1', '{x}', '+', '"', "'", '<', '|', '^', '~', '!', '*', '(', ')',
  );
  const hostile = fc.oneof(fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => pieces.join('')), fc.string({ unit: 'binary', maxLength: 30 }), fc.string({ unit: 'grapheme', maxLength: 30 }));
  const plain = fc.constantFrom('a', 'O-417');

  /** Null when the value was refused before anything was sent. */
  async function sent(tool: ToolPlan, args: { path: string; query: string; head: string }) {
    try {
      const request = tool.render({ args });
      return await upstream.send(request, { upstream: tool.upstream, attempt: mintAttempt(), deadlineMs: 5_000 });
    } catch (thrown) {
      expect(thrown).toBeInstanceOf(EvaluationError);
      return null;
    }
  }

  it('stays in its place, whole, as a real server reads it', async () => {
    const tool = toolAt(`http://127.0.0.1:${(node.address() as AddressInfo).port}`);
    let refused = 0;
    let read = 0;
    // one place is hostile at a time: a header admits little, and would hide the others
    const cases = fc.oneof(fc.record({ path: hostile, query: hostile, head: plain }), fc.record({ path: plain, query: plain, head: hostile }));
    await fc.assert(fc.asyncProperty(cases, async (args) => {
      seen.length = 0;
      const exchange = await sent(tool, args);
      if (exchange === null) {
        refused++;
        expect(seen).toEqual([]);
        return;
      }
      read++;
      expect(exchange).toMatchObject({ kind: 'response', status: 200 });
      expect(seen).toHaveLength(1);
      const { method, url, headers, raw: rawHeaders } = seen[0] as Seen;
      const [path = '', query = '', ...more] = url.split('?');
      expect([method, more, path.split('/').length]).toEqual(['GET', [], 5]);
      expect(path.split('/').map((segment) => decodeURIComponent(segment))).toEqual(['', 'api', 'files', args.path, 'meta']);
      expect([...new URLSearchParams(query)].sort()).toEqual([['fixed', 'one'], ['q', args.query]]);
      expect(headers['x-note']).toBe(`n-${args.head}`);
      expect(headers.host).toBe(new URL(tool.upstream.origin).host);
      expect(rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase()).sort()).toEqual(['accept', 'callgate-attempt', 'connection', 'host', 'user-agent', 'x-note']);
    }), { numRuns: 600 });
    expect(Math.min(refused, read)).toBeGreaterThan(50);
  });

  it('is one request in bytes as well: nothing that it holds ends the head, or begins another', async () => {
    const tool = toolAt(raw.origin);
    await fc.assert(fc.asyncProperty(hostile, hostile, hostile, async (path, query, head) => {
      raw.bytes = '';
      const before = raw.arrivals.length;
      const exchange = await sent(tool, { path, query, head });
      expect(raw.arrivals.length - before).toBe(exchange === null ? 0 : 1);
      expect(raw.bytes.split('\r\n\r\n').length).toBe(exchange === null ? 1 : 2);
      expect(raw.bytes).toMatch(exchange === null ? /^$/ : /^GET \/api\/files\/[^\s/?#]+\/meta\?[!-"$-~]+ HTTP\/1\.1\r\n[ -~\r\n]+$/);
    // Few are admitted with all three: some of which that is known.
    }), { numRuns: 200, examples: ['a', '%2f', '\u{1f600}', '..a', 'admin?x=1#y', 'é&=;'].map((text): [string, string, string] => [text, text, 'plain']) });
    expect(raw.arrivals.length).toBeGreaterThan(5);
  });
});
