/** The example service as a process of its own, with the suite's orders: FAULTS_DELIVERED and FAULTS_PENDING of each customer. */
import { startRetailService } from '../examples/retail/service/server.js';
import { ordersOf } from './orders.js';

const { PORT, RETAIL_TOKEN, RETAIL_JOURNAL, FAULTS_DELIVERED, FAULTS_PENDING } = process.env;
const service = await startRetailService({
  port: Number(PORT), token: RETAIL_TOKEN ?? null, journal: RETAIL_JOURNAL ?? null,
  orders: () => ordersOf({ delivered: Number(FAULTS_DELIVERED), pending: Number(FAULTS_PENDING) }),
});
console.log(`listening on ${service.url}`);
