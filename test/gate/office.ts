/** A service whose answers a test sets, and the contracts of it: mail that others wrote, uploads of many files, payments, reports. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const contract = `
callgate: 1
service: office
upstream: { base_url: "\${OFFICE_URL}", limits: { deadline: 2s } }
tools:
  read_mail:
    version: 1.0.0
    effect: none
    untrusted: true
    purpose: Read a mail.
    args: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id] }
    result: { type: object, properties: { text: { type: string } }, required: [text] }
    http: { method: GET, path: "/mail/{args.id}" }
    public: [code, detail]
    errors: [ { when: "status == 409 && body.code == 'LOCKED'", outcome: rejected, code: MAIL_LOCKED, next: ask } ]
    retry: { attempts: 1 }
  look_up:
    version: 1.0.0
    effect: none
    durability: relaxed
    purpose: Look something up.
    args: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id] }
    result: { type: object, properties: { text: { type: string } }, required: [text] }
    http: { method: GET, path: "/words/{args.id}" }
  pay:
    version: 1.0.0
    effect: write
    purpose: Pay somebody.
    args: { type: object, properties: { amount: { type: integer, minimum: 1 }, card: { type: string, maxLength: 20 } }, required: [amount] }
    redact: [/args/card]
    http: { method: POST, path: /pay, headers: { Idempotency-Key: "{operation.id}" }, body: { amount: args.amount } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a payment, never: [] }
    approval: [ { when: session.untrusted, by: reviewer } ]
    public: [code, error.message, limit, token, error, list, card]
    errors:
      - { when: "status == 422 && body.code == 'LIMIT'", outcome: rejected, code: PAYMENT_LIMIT, next: escalate }
      - { when: "status == 422 && body.code == 'GONE'", outcome: rejected, class: not_found, next: ask }
      - { when: "status == 503 && body.code == 'CLOSED'", outcome: not_committed, next: retry }
    retry: { attempts: 1 }
    verify: on_ambiguity
    result: { type: object, properties: { payment_id: { type: string } }, required: [payment_id] }
  send_report:
    version: 1.0.0
    effect: write
    purpose: Send a report.
    args: { type: object, properties: { to: { type: string, maxLength: 40 } }, required: [to] }
    http: { method: POST, path: /report, headers: { Idempotency-Key: "{operation.id}" }, body: { to: args.to } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a report, never: [] }
    verify: on_ambiguity
    result: { type: object, properties: { report_id: { type: string } }, required: [report_id] }
  ask_outside:
    version: 1.0.0
    effect: write
    untrusted: true
    purpose: Ask somebody outside.
    identity: { scope: tenant }
    args: { type: object, properties: { question: { type: string, maxLength: 40 } }, required: [question] }
    http: { method: POST, path: /ask, headers: { Idempotency-Key: "{operation.id}" }, body: { question: args.question } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a question, never: [] }
    verify: on_ambiguity
    result: { type: object, properties: { answer: { type: string } }, required: [answer] }
  find_upload:
    version: 1.0.0
    effect: none
    purpose: Find an upload by its key.
    args: { type: object, properties: { key: { type: string, maxLength: 100 } }, required: [key] }
    result: { type: object, properties: { found: { type: boolean }, failed: { type: array, maxItems: 50, items: { type: object, properties: { path: { type: string }, error: { type: string } }, required: [path, error] } } }, required: [found] }
    http: { method: GET, path: "/uploads/{args.key}" }
  upload:
    version: 1.0.0
    effect: write
    purpose: Upload files.
    args: { type: object, properties: { files: { type: array, maxItems: 50, items: { type: string, maxLength: 40 } } }, required: [files] }
    http: { method: POST, path: /uploads, headers: { Idempotency-Key: "{operation.id}" }, body: { files: args.files } }
    effects: { creates: files, never: [] }
    partial: { items: args.files, key: item, failed: "result.failed.exists(one, one.path == item)" }
    readback:
      tool: find_upload
      args: { key: operation.id }
      committed: result.found
      absent: "!result.found"
      result: "{'failed': result.failed}"
      settle_after: 1s
    verify: on_ambiguity
    result: { type: object, properties: { failed: { type: array, maxItems: 50, items: { type: object, properties: { path: { type: string }, error: { type: string } }, required: [path, error] } } }, required: [failed] }
policies: office.cedar
`;

const policies = `
@id("all") permit (principal, action, resource);
@id("no-reports-after-mail") forbid (principal, action == Action::"send_report", resource) when { context.untrusted };
`;

export interface Reply { status: number; body?: unknown; text?: string }

export interface Office {
  url: string;
  folder: string;
  /** By method and first part of the path; what is not set answers 404. */
  replies: Record<string, Reply | Reply[]>;
  asked: { line: string; key: string | undefined }[];
  close(): Promise<void>;
}

export async function openOffice(): Promise<Office> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-office-'));
  writeFileSync(join(folder, 'office.yaml'), contract);
  writeFileSync(join(folder, 'office.cedar'), policies);
  const office: Omit<Office, 'url' | 'close'> = { folder, replies: {}, asked: [] };
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      const line = `${request.method} ${request.url}`;
      office.asked.push({ line, key: request.headers['idempotency-key'] as string | undefined });
      const set = office.replies[`${request.method} /${request.url?.split('/')[1]}`];
      const reply = (Array.isArray(set) ? (set.length > 1 ? set.shift() : set[0]) : set) ?? { status: 404, body: {} };
      response.writeHead(reply.status, { 'content-type': 'application/json' });
      response.end(reply.text ?? JSON.stringify(reply.body));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(office, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  });
}
