/** What is to be cancelled in whichever replica it waits: asked here, because only the ledger reaches them all. The table is as good as empty. */
import type { CancelRequest, CancelRequests } from '../gate/ports.js';
import type { Statement } from './connection.js';

/** Whoever asked has given up by then. */
const answeredWithinMs = 5_000;

export function openCancelRequests(plain: <Row extends object>(statement: Statement) => Promise<Row[]>): CancelRequests {
  return {
    async ask({ tenant, id, principal, subject }) {
      await plain({
        name: 'ask_cancel', values: [tenant, id, principal, subject],
        text: `insert into cancel_requests as c (tenant, operation_id, principal, subject) values ($1, $2, $3, $4)
          on conflict (tenant, operation_id, principal) do update set subject = excluded.subject, asked_at = now()`,
      });
    },
    list: () => plain<CancelRequest>({
      name: 'cancel_requests', values: [answeredWithinMs],
      text: `select tenant, operation_id as id, principal, subject from cancel_requests where asked_at > now() - $1::float8 * interval '1 ms'`,
    }),
    async forget({ tenant, id, principal }) {
      await plain({
        name: 'forget_cancel', values: [tenant, id, principal, answeredWithinMs],
        text: `delete from cancel_requests where tenant = $1 and operation_id = $2 and principal = $3 or asked_at < now() - 12 * $4::float8 * interval '1 ms'`,
      });
    },
  };
}
