/** The same write as a DBOS workflow: the idempotency key is its id, the call of the service its one step. DBOS commits its start, the result of the step and its end. */
import { DBOS } from '@dbos-inc/dbos-sdk';
import fastify from 'fastify';
import { openService } from './service.mjs';

const { UPSTREAM, DATABASE_URL, POOL } = process.env;
const credit = openService(UPSTREAM);

const workflow = DBOS.registerWorkflow(
  (text) => DBOS.runStep(() => credit(JSON.parse(text), DBOS.workflowID, text), { name: 'credit', retriesAllowed: false }),
  { name: 'call' },
);
DBOS.setConfig({ name: 'bench', systemDatabaseUrl: DATABASE_URL, systemDatabasePoolSize: Number(POOL), logLevel: 'error', runAdminServer: false, applicationVersion: '1' });
await DBOS.launch();

const app = fastify();
app.removeAllContentTypeParsers();
app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body));
app.post('/call', async (request, response) => {
  const handle = await DBOS.startWorkflow(workflow, { workflowID: request.headers['idempotency-key'] })(request.body);
  return response.header('content-type', 'application/json').send(JSON.stringify(await handle.getResult()));
});
await app.listen({ host: '127.0.0.1', port: 0, backlog: 1024 });
console.log(`listening on http://127.0.0.1:${app.server.address().port}`);
