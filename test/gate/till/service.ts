/** The service behind `till.yaml`: keeps keys, versions and books of every effect, and can be told to hold, refuse, drop or change. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Effect { tool: string; id: string; key: string; body: Record<string, unknown> }
interface Thing { status: string; text: string; writes: number }
type Fault = 'drop_after' | 'refuse';

const from: Record<string, string[]> = { create_transaction: ['NEW'], charge_payment: ['CREATED'], cancel_sale: ['NEW', 'CREATED'] };

export class Till {
  readonly effects: Effect[] = [];
  /** Every request as it arrived, `GET sale` or the tool of a write. */
  readonly requests: string[] = [];
  private readonly things = new Map<string, Thing>();
  private readonly faults = new Map<string, Fault[]>();
  private readonly gates = new Map<string, Promise<void>>();
  private server!: Server;
  url = '';

  static async start(): Promise<Till> {
    const till = new Till();
    till.server = createServer((request, response) => {
      till.answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
    });
    await new Promise<void>((resolve) => till.server.listen(0, '127.0.0.1', resolve));
    till.url = `http://127.0.0.1:${(till.server.address() as AddressInfo).port}`;
    return till;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** Tools of the effects on a thing, in the order in which they happened. */
  on(id: string): string[] {
    return this.effects.filter((effect) => effect.id === id).map(({ tool }) => tool);
  }

  fault(tool: string, fault: Fault): void {
    this.faults.set(tool, [...(this.faults.get(tool) ?? []), fault]);
  }

  /** Requests of a tool wait before they do anything, until the returned function is called. */
  hold(tool: string): () => void {
    let open: () => void = () => undefined;
    this.gates.set(tool, new Promise((resolve) => { open = resolve; }));
    return () => {
      this.gates.delete(tool);
      open();
    };
  }

  /** Somebody else changes it. */
  change(kind: string, id: string, change: Partial<Thing>): void {
    const thing = this.thing(kind, id);
    Object.assign(thing, change);
    thing.writes++;
  }

  private thing(kind: string, id: string): Thing {
    const name = `${kind}/${id}`;
    const thing = this.things.get(name) ?? { status: 'NEW', text: '', writes: 0 };
    this.things.set(name, thing);
    return thing;
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://till');
    const [kind = '', id = '', tool = ''] = pathname.slice(1).split('/').map(decodeURIComponent);
    this.requests.push(request.method === 'GET' ? `GET ${kind}` : tool);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    await this.gates.get(request.method === 'GET' ? `GET ${kind}` : tool);
    if (request.method === 'GET') this.read(response, kind, id, searchParams.get('key'));
    else this.write(request, response, { kind, id, tool, body: JSON.parse(Buffer.concat(chunks).toString() || '{}') as Record<string, unknown> });
  }

  private read(response: ServerResponse, kind: string, id: string, key: string | null): void {
    const { status, text, writes } = this.thing(kind, id);
    const found = this.effects.filter((effect) => effect.key === key);
    if (kind !== 'effects') send(response, 200, kind === 'sale' ? { id, status, writes } : { id, text, writes }, writes);
    else send(response, 200, key === null ? { effects: this.effects.length } : { count: found.length, effect_id: found[0]?.key ?? '' });
  }

  private write(request: IncomingMessage, response: ServerResponse, asked: { kind: string; id: string; tool: string; body: Record<string, unknown> }): void {
    const key = String(request.headers['idempotency-key']);
    const thing = this.thing(asked.kind, asked.id);
    const done = this.effects.some((effect) => effect.key === key);
    const fault = done ? undefined : this.faults.get(asked.tool)?.shift();
    const refusal = done ? null : refused(request.headers['if-match'], asked.tool, thing, fault);
    if (refusal !== null) return void send(response, refusal, { code: 'NO' });
    if (!done) this.take(thing, asked, key);
    if (fault === 'drop_after') request.socket.destroy();
    else send(response, 200, { effect_id: key }, thing.writes);
  }

  private take(thing: Thing, { id, tool, body }: { id: string; tool: string; body: Record<string, unknown> }, key: string): void {
    this.effects.push({ tool, id, key, body });
    thing.writes++;
    if (typeof body['to'] === 'string') thing.status = body['to'];
    if (typeof body['text'] === 'string') thing.text = body['text'];
    if (typeof body['shelf'] === 'string') this.thing('shelf', body['shelf']).writes++;
  }
}

function refused(match: string | undefined, tool: string, thing: Thing, fault: Fault | undefined): number | null {
  if (fault === 'refuse') return 422;
  if (match !== undefined && match !== `"${thing.writes}"`) return 412;
  return from[tool]?.includes(thing.status) === false ? 409 : null;
}

function send(response: ServerResponse, status: number, body: object, version?: number): void {
  response.writeHead(status, { 'content-type': 'application/json', ...(version === undefined ? {} : { etag: `"${version}"` }) }).end(JSON.stringify(body));
}
