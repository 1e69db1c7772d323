/** Sessions that have been told something which may carry injected text. Never unmarked. */
import type { Mark } from '../gate/ports.js';
import type { LaneStatement } from './pipeline.js';

/** In the order of the keys, like every statement of a flush; a session that is marked already is left alone. */
const markText = `
insert into untrusted_sessions (tenant, principal, subject, session_id, tool)
select distinct on (m.tenant, m.principal, m.subject, m.session_id) m.tenant, m.principal, m.subject, m.session_id, m.tool
from json_to_recordset($1::json) as m (n integer, tenant text, principal text, subject text, session_id text, tool text)
order by m.tenant, m.principal, m.subject, m.session_id, m.n
on conflict do nothing`;

export function markStatement(marks: Mark[]): LaneStatement {
  const rows = marks.map(({ tenant, principal, subject, sessionId, tool }, n) => ({ n, tenant, principal, subject, session_id: sessionId, tool }));
  return { name: 'mark', text: markText, values: [JSON.stringify(rows)] };
}
