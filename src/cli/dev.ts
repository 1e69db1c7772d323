import { startDevelopment, type Development } from '../development/start.js';
import { projectFile } from '../project.js';
import { readArgs, readConfig, untilStopped } from './usage.js';

/** `callgate dev`, which is `npm start`: a gateway to try, from nothing. */
export async function dev(args: string[]): Promise<number> {
  const { values } = readArgs(args, { config: { type: 'string' } });
  const env = { CALLGATE_CONTRACTS_FOLDER: projectFile('examples', 'retail', 'contracts'), CALLGATE_LOG_LEVEL: 'warn', ...process.env };
  const stopped = untilStopped();
  const started = await startDevelopment(readConfig(values.config, env));
  console.log(welcome(started.details));
  await stopped;
  console.log('\nStopping …');
  await started.close();
  return 0;
}

function welcome(details: Development['details']): string {
  const call = {
    session_id: 'conv-1', intent_id: 'int-1', call_id: 'call_1', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 2500, currency: 'GBP' },
  };
  return `
Callgate is running.

  agents      ${details.agent_url}      propose calls here
  people      ${details.control_url}      receipts, operations, /docs, /metrics
  example     ${details.upstream_url}      a retail service; its own books are at /_books

Give a customer 25.00 of store credit, as an agent would:

  curl -s ${details.agent_url}/v1/calls \\
    -H 'Authorization: Bearer ${details.agent_key}' \\
    -H 'Content-Type: application/json' \\
    -d '${JSON.stringify(call)}'

Run it twice: the second answer is \`replayed\`, and ${details.upstream_url}/_books has one credit.

  agent key        ${details.agent_key}
  application key  ${details.application_key}
  reviewer keys    ${details.reviewer_keys.join('\n                   ')}
  auditor key      ${details.auditor_key}
  admin key        ${details.admin_key}

What was decided, and what was seen of the effect:

  curl -s ${details.control_url}/v1/receipts -H 'Authorization: Bearer ${details.auditor_key}'

All of this is in .callgate/dev.json. Next: README.md, ${details.control_url}/docs, docs/contracts.md. Ctrl-C stops everything.
`;
}
