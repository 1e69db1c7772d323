/** The service, as a peer's step calls it. */
import { Pool } from 'undici';

/** @returns one credit under a key: parsed, or an error that the peer deals with. */
export function openService(url) {
  const pool = new Pool(url, { connections: 64, pipelining: 1 });
  return async ({ order_id: order }, key, body) => {
    const response = await pool.request({ method: 'POST', path: `/orders/${order}/credits`, headers: { 'content-type': 'application/json', 'idempotency-key': key }, body });
    if (response.statusCode !== 200) throw new Error(`the service answered ${response.statusCode}`);
    return response.body.json();
  };
}
