import { inject, it } from 'vitest';
import pg from 'pg';
import { fillLedger } from './large-ledger.js';

it('fills', async () => {
  const t = performance.now();
  const url = await fillLedger(30_000);
  console.log('filled', performance.now() - t);
  const db = new pg.Client({ connectionString: url });
  await db.connect();
  for (const q of [`select relname, n_live_tup from pg_stat_user_tables order by 2 desc limit 18`, `select tenant, count(*) from operations group by 1 order by 2 desc limit 5`,
    `select tool,state,principal,count(*) from operations group by 1,2,3 order by 4 desc`, `select kind,disposition,outcome,count(*) from receipts group by 1,2,3 order by 4`,
    `select id, recorded_at, operation_id, session_id from receipts order by random() limit 5`, `select min(recorded_at), max(recorded_at), count(distinct session_id) from receipts`,
    `select count(*) as orphans from receipts r where operation_id is not null and not exists (select 1 from operations o where o.tenant=r.tenant and o.operation_id=r.operation_id)`,
    `select count(*) as nocalls from operations o where effect <> 'none' and not exists (select 1 from calls r where o.tenant=r.tenant and o.operation_id=r.operation_id)`,
    `select count(*) as norec from operations o where not exists (select 1 from receipts r where o.tenant=r.tenant and o.decision_receipt=r.id)`,
    `select * from operations where session_id like '%-c%' order by random() limit 1`]) console.log(q, JSON.stringify((await db.query(q)).rows, null, 1));
  await db.end();
}, 180_000);
