/**
 * What the same work costs without a gateway's guarantees, as MODE:
 *   proxy            Fastify and undici, nothing durable
 *   naive            a durable intent before the send and a durable result after it, each a commit of its own over a pool of 20
 *   naive-prepared   the same with named prepared statements
 * No validation, no policy, no observation, no recovery.
 */
import { createHash } from 'node:crypto';
import fastify from 'fastify';
import pg from 'pg';
import { Pool as HttpPool } from 'undici';

const { MODE, UPSTREAM, DATABASE_URL } = process.env;
const prepared = MODE === 'naive-prepared';

const upstream = new HttpPool(UPSTREAM, { connections: 64, pipelining: 1 });
const app = fastify();
app.removeAllContentTypeParsers();
app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body));

async function send(method, path, headers, body) {
  const response = await upstream.request({ method, path, headers, body });
  return { status: response.statusCode, text: await response.body.text() };
}

function forward(call, key, text) {
  return send('POST', `/orders/${call.order_id}/credits`, { 'content-type': 'application/json', 'idempotency-key': key }, text);
}

const reply = (response, status, text) => response.code(status).header('content-type', 'application/json').send(text);

const insertText = `insert into naive_calls (call_key, request_hash, request, state) values ($1, $2, $3, 'sent') on conflict do nothing`;
const settleText = `update naive_calls set state = 'done', response = $2, done_at = now() where call_key = $1 and state = 'sent'`;
const selectText = `select state, request_hash, response from naive_calls where call_key = $1`;

/** @returns what handles one write. */
async function openNaive() {
  pg.types.setTypeParser(pg.types.builtins.JSONB, (text) => text);
  const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 20, min: 20, idleTimeoutMillis: 0 });
  await pool.query(`create table if not exists naive_calls (
    call_key text primary key, request_hash bytea not null, request jsonb not null, state text not null, response jsonb,
    created_at timestamptz not null default now(), done_at timestamptz) with (fillfactor = 70)`);
  const query = (name, text, values) => pool.query(prepared ? { name, text, values } : { text, values });

  return async (key, call, text, response) => {
    const hash = createHash('sha256').update(text).digest();
    const inserted = await query('insert', insertText, [key, hash, text]);
    if (inserted.rowCount === 0) return again((await query('select', selectText, [key])).rows[0], hash, response);
    const { text: result } = await forward(call, key, text);
    await query('settle', settleText, [key, result]);
    return reply(response, 200, result);
  };
}

function again(row, hash, response) {
  if (!row.request_hash.equals(hash)) return reply(response, 422, '{"error":"another payload"}');
  if (row.state !== 'done') return reply(response, 409, '{"error":"in progress"}');
  return reply(response, 200, row.response);
}

const write = MODE === 'proxy'
  ? async (key, call, text, response) => reply(response, 200, (await forward(call, key, text)).text)
  : await openNaive();

app.post('/credits', (request, response) => write(request.headers['idempotency-key'], JSON.parse(request.body), request.body, response));
app.post('/convert', async (request, response) => {
  const { status, text } = await send('GET', `/convert?value=${JSON.parse(request.body).value}`);
  return reply(response, status, text);
});

await app.listen({ host: '127.0.0.1', port: 0, backlog: 1024 });
console.log(`listening on http://127.0.0.1:${app.server.address().port}`);
