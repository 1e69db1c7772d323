/**
 * Runs the example retail service on its own: PORT (8090), HOST (127.0.0.1), RETAIL_TOKEN (none: no credential asked),
 * RETAIL_JOURNAL (none: in memory alone), RETAIL_WEBHOOK_SECRET (none: it tells nobody) and RETAIL_WEBHOOK_URL.
 */
import { JournalError } from './journal.js';
import { startRetailService } from './server.js';

const portText = process.env.PORT || '8090';
const port = Number(portText);
if (!Number.isInteger(port) || port < 0 || port > 65_535) {
  console.error(`PORT is \`${portText}\`, which is no TCP port; set it to a number from 0 to 65535, or leave it out for 8090.`);
  process.exit(1);
}

try {
  const service = await startRetailService({
    port, host: process.env.HOST || '127.0.0.1', token: process.env.RETAIL_TOKEN || null, journal: process.env.RETAIL_JOURNAL || null,
    webhooks: process.env.RETAIL_WEBHOOK_SECRET ? { secret: process.env.RETAIL_WEBHOOK_SECRET, url: process.env.RETAIL_WEBHOOK_URL || null } : null,
  });
  console.log(`retail service listening on ${service.url}`);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void service.close());
} catch (error) {
  const reason = error instanceof Error ? error.message : String(error);
  console.error(error instanceof JournalError
    ? `${reason} (RETAIL_JOURNAL names it.)`
    : `The retail service could not listen: ${reason}. Set PORT or HOST to an address that is free.`);
  process.exit(1);
}
