/** The loops of docs/client.md, as they stand there. */
import type { Callgate, Envelope } from '../../src/client/index.js';
import { blocks, page } from '../docs/pages.js';

type Loop = (gate: Callgate, provider: object, model: string, envelope: Envelope, history: unknown[]) => Promise<string>;

export interface Loops { chat: Loop; responses: Loop; anthropic: Loop }

export async function loops(): Promise<Loops> {
  const code = blocks(page('docs/client.md').text, 'js').join('\n');
  return (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(code)}`)) as Loops;
}
