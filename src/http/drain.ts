/** How a listener ends. */
import type { App } from './server.js';

/**
 * Takes no new connection, lets running requests end, and cuts what is left after `graceMs`. Without the cut a client
 * that stopped in the middle of a body would hold the process for ever: Node checks no request timeout while it closes.
 */
export async function drain(app: App, graceMs: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), graceMs);
  try {
    await app.close();
  } finally {
    clearTimeout(cut);
  }
}
