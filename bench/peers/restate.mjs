/** The same write as a Restate service, whose server keeps the invocation under its idempotency key and the result of the one durable step in it. */
import { openService } from './service.mjs';

// The SDK uses it, and Node 20 does not have it.
Promise.withResolvers ??= function withResolvers() {
  const parts = {};
  parts.promise = new this((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};
const restate = await import('@restatedev/restate-sdk');

const { UPSTREAM, PORT } = process.env;
const credit = openService(UPSTREAM);
const bench = restate.service({
  name: 'bench',
  handlers: {
    call: (context, order) => context.run('credit', () => credit(order, context.request().headers.get('idempotency-key'), JSON.stringify(order))),
  },
});
await restate.serve({ services: [bench], port: Number(PORT) });
console.log(`listening on http://127.0.0.1:${PORT}`);
