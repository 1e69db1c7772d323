/**
 * What the service tells by itself of the writes that it had accepted with 202: signed as Standard Webhooks has it, and sent again until it is
 * taken. An event has the same id and the same bytes on every delivery, also after a restart, which delivers it once more.
 */
import { createHash, createHmac } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Answer } from './answer.js';
import type { Tool } from './faults.js';

export interface WebhookOptions {
  /** `whsec_` and base64 of at least 24 bytes. */
  secret: string;
  /** Where they are sent. Null: nobody has said so yet; what is due waits. */
  url: string | null;
}

const nouns: Partial<Record<Tool, string>> = { issue_credit: 'credit', void_credit: 'void', cancel_order: 'cancellation' };
const firstRetryMs = 200;
const longestRetryMs = 30_000;
const deadlineMs = 5_000;

export class Webhooks {
  readonly #secret: Buffer;
  url: string | null;

  constructor({ secret, url }: WebhookOptions) {
    this.#secret = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    this.url = url;
  }

  /** What became of the write under this key. Ends when it is taken, or with `ended`. */
  async tell(tool: Tool, key: string, answer: Answer, ended: AbortSignal): Promise<void> {
    const refused = answer.status >= 400;
    const { receipt_id, amount, code } = answer.body;
    const data = { request_key: key, ...(refused ? { code } : { receipt_id, amount }) };
    const body = JSON.stringify({ type: `${nouns[tool] ?? tool}.${refused ? 'refused' : 'created'}`, data });
    const id = `evt_${createHash('sha256').update(key).digest('hex').slice(0, 32)}`;
    for (let retryMs = firstRetryMs; !(await this.#deliver(id, body, ended)); retryMs = Math.min(longestRetryMs, retryMs * 2)) {
      await delay(retryMs, undefined, { signal: ended });
    }
  }

  /** False: nobody took it. */
  async #deliver(id: string, body: string, ended: AbortSignal): Promise<boolean> {
    if (this.url === null) return false;
    const timestamp = String(Math.floor(Date.now() / 1000));
    const signature = createHmac('sha256', this.#secret).update(`${id}.${timestamp}.${body}`).digest('base64');
    try {
      const response = await fetch(this.url, {
        method: 'POST', body, signal: AbortSignal.any([ended, AbortSignal.timeout(deadlineMs)]),
        headers: { 'content-type': 'application/json', 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` },
      });
      await response.arrayBuffer();
      return response.ok;
    } catch {
      return false;
    }
  }
}
