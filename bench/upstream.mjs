/**
 * The service beneath every system: answers at once, remembers nothing but the credits that a read-back may ask for. Only the first credit
 * on order O-0 is answered late, so that others wait in line for that order.
 */
import { createServer } from 'node:http';

const credits = new Map();
const rememberedAtMost = 100_000;
let effects = 0;
let toHold = true;
const heldMs = 25_000;

const server = createServer((request, response) => {
  const { method, url } = request;
  if (method === 'POST') {
    const held = toHold && url === '/orders/O-0/credits';
    if (held) toHold = false;
    return readBody(request, (body) => (held ? setTimeout(() => credit(request, response, body), heldMs) : credit(request, response, body)));
  }
  if (url.startsWith('/orders/')) return answer(response, { order_id: url.slice(8), status: 'DELIVERED', refundable: 5000, customer_id: 'C-1' }, { etag: '"7"' });
  if (url.startsWith('/convert')) return answer(response, { value: Number(url.slice(url.indexOf('=') + 1)) * 1.8 + 32 });
  if (url.startsWith('/credits')) return found(response, credits.get(decodeURIComponent(url.slice(url.indexOf('=') + 1))));
  return answer(response, { effects });
});

function readBody(request, done) {
  let text = '';
  request.setEncoding('latin1').on('data', (chunk) => { text += chunk; }).on('end', () => done(text));
}

function credit(request, response, body) {
  const receipt = { receipt_id: `rc_${++effects}`, amount: JSON.parse(body).amount };
  if (credits.size >= rememberedAtMost) credits.delete(credits.keys().next().value);
  credits.set(request.headers['idempotency-key'], receipt);
  answer(response, receipt);
}

function found(response, receipt) {
  answer(response, { count: receipt ? 1 : 0, amount: receipt?.amount ?? 0, receipt: receipt ?? null });
}

function answer(response, value, headers = {}) {
  const text = JSON.stringify(value);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers }).end(text);
}

server.listen(0, '127.0.0.1', 1024, () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
