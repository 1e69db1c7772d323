/** A service of documents in contracts of its own: what it answers is whatever bytes a test gives it, and it counts what it was asked to write. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Archive {
  /** Raw JSON text, by document. */
  documents: Map<string, string>;
  /** Keys of the writes that took effect. */
  written: string[];
  env: Record<string, string>;
  close(): void;
}

const contract = `
callgate: 1
service: archive
upstream: { base_url: "\${ARCHIVE_URL}" }
tools:
  read_document:
    version: 1.0.0
    effect: none
    purpose: Read one document.
    args: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id] }
    result: { description: Anything. }
    http: { method: GET, path: "/documents/{args.id}" }
    not_found: status == 404
  count_pages:
    version: 1.0.0
    effect: none
    purpose: Say how many pages a document has.
    args: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id] }
    result: { type: object, properties: { id: { type: [integer, string] }, pages: { type: integer } }, required: [id, pages] }
    http: { method: GET, path: "/documents/{args.id}" }
  print_document:
    version: 1.0.0
    effect: write
    purpose: Print one document and give what was printed.
    use_when: A printed copy is wanted.
    not_when: Reading it is enough.
    examples: [{ args: { id: d1 } }]
    args: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id] }
    result: { description: Anything. }
    http: { method: POST, path: "/documents/{args.id}/prints", headers: { Idempotency-Key: "{operation.id}" } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: one print keyed by operation.id, never: [] }
policies: all.cedar
`;

export async function startArchive(): Promise<Archive> {
  const documents = new Map<string, string>();
  const written: string[] = [];
  const server = createServer((request, response) => {
    const text = documents.get(request.url?.split('/')[2] ?? '');
    const key = request.headers['idempotency-key'];
    if (request.method === 'POST' && typeof key === 'string' && !written.includes(key)) written.push(key);
    response.writeHead(text === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(text ?? '{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const folder = mkdtempSync(join(tmpdir(), 'callgate-archive-'));
  writeFileSync(join(folder, 'archive.yaml'), contract);
  writeFileSync(join(folder, 'all.cedar'), '@id("agents-may")\npermit (principal, action, resource) when { principal.roles.contains("agent") };\n');
  process.env['ARCHIVE_URL'] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    documents, written, env: { CALLGATE_CONTRACTS_FOLDER: folder },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
