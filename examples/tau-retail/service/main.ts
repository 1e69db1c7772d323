/**
 * Runs the service on its own, over the data of tau-bench: TAU_DATA (a folder with orders.json, users.json and products.json), TAU_EDITION
 * (tau1 or tau2; tau1), PORT (8091), HOST (127.0.0.1), TAU_RETAIL_TOKEN (none: no credential asked).
 */
import { readRetailData } from '../domain/store.js';
import { startTauService } from './server.js';

const { TAU_DATA: folder, TAU_EDITION: edition = 'tau1', PORT: port = '8091', HOST: host = '127.0.0.1', TAU_RETAIL_TOKEN: token } = process.env;
if (!folder || (edition !== 'tau1' && edition !== 'tau2')) {
  console.error('Set TAU_DATA to the folder of orders.json, users.json and products.json, and TAU_EDITION to tau1 or tau2.');
  process.exit(1);
}
const service = await startTauService({ edition, data: readRetailData(folder), port: Number(port), host, token: token || null });
console.log(`tau retail service (${edition}) listening on ${service.url}`);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void service.close());
