/** Events as the example's contract expects them, signed as Standard Webhooks has it. */
import { createHmac } from 'node:crypto';
import { unique } from '../support/gateway.js';

export const webhookSecret = `whsec_${Buffer.from('the-secret-of-the-shop-for-tests').toString('base64')}`;
export const otherSecret = `whsec_${Buffer.from('a-secret-of-somebody-else-in-tests').toString('base64')}`;

export interface Delivery { id?: string; secret?: string; at?: number; service?: string; headers?: Record<string, string | null> }
export interface Delivered { http: number; status?: string; event_id?: string; code?: string; retryAfter: string | null }

export function signature(secret: string, id: string, timestamp: string, body: string): string {
  return `v1,${createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64')).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}

/** @param event an object, or any text */
export async function deliver(controlUrl: string, event: object | string, delivery: Delivery = {}): Promise<Delivered> {
  const body = typeof event === 'string' ? event : JSON.stringify(event);
  const id = delivery.id ?? unique('evt');
  const timestamp = String(Math.floor((delivery.at ?? Date.now()) / 1000));
  const headers: Record<string, string | null> = {
    'content-type': 'application/json', 'webhook-id': id, 'webhook-timestamp': timestamp,
    'webhook-signature': signature(delivery.secret ?? webhookSecret, id, timestamp, body), ...delivery.headers,
  };
  const response = await fetch(`${controlUrl}/v1/callbacks/${delivery.service ?? 'retail'}`, {
    method: 'POST', body, headers: Object.entries(headers).flatMap(([name, value]): [string, string][] => (value === null ? [] : [[name, value]])),
  });
  return { ...(await response.json()) as object, http: response.status, retryAfter: response.headers.get('retry-after') };
}

export const created = (key: string, amount = 2500, receipt = 'CR-TOLD'): object => ({ type: 'credit.created', data: { request_key: key, amount, receipt_id: receipt } });
export const refused = (key: string): object => ({ type: 'credit.refused', data: { request_key: key } });
