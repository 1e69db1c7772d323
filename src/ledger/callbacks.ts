/**
 * What services tell by themselves. An event is kept under its id before it is acknowledged, and stays due until its operation has settled
 * and it was weighed against that; any replica may take it.
 */
import { sha256 } from '../canonical.js';
import type { Callbacks, CallbackEvent, KeptCallback, Operation } from '../gate/ports.js';
import type { Statement } from './connection.js';
import { hex, operationColumns, type OperationRow, toOperation } from './operation-row.js';
import type { Sealer } from './seal.js';

/** Of one operation, while it is open: more than any service tells of one call. */
const eventsAtMost = 100;

type Run = <Row extends object>(statement: Statement) => Promise<Row[]>;

const eventPlace = (service: string, id: string): string => `callback/${service}/${id}`;

/** Whatever is there under the id already is the event; the same again is not another one. */
const keepText = `
with known as materialized (
  select c.digest from callbacks c where c.service = $1 and c.event_id = $2 limit 1
),
kept as (
  insert into callbacks (service, event_id, upstream_key, digest, sealed_event, due_at)
  select $1, $2, k.upstream_key, $4::bytea, $5::bytea, now()
  from unnest($3::text[]) as k (upstream_key)
  where not exists (select 1 from known)
  order by k.upstream_key
  on conflict do nothing
  returning upstream_key
)
select (select count(*) from kept)::integer as kept, (select digest = $4::bytea from known) as same`;

const takeText = `
update callbacks c set due_at = now() + $1::float8 * interval '1 ms', tries = c.tries + 1
where (c.service, c.event_id, c.upstream_key) in (
  select d.service, d.event_id, d.upstream_key from callbacks d
  where d.due_at <= now()
  order by d.due_at
  limit $2
  for update skip locked)
returning ${eventColumns('c')}, c.tries`;

function eventColumns(alias: string): string {
  return `${alias}.service, ${alias}.event_id, ${alias}.upstream_key, ${alias}.sealed_event,
    to_char(${alias}.received_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as received_at,
    extract(epoch from clock_timestamp() - ${alias}.received_at) * 1000 as age_ms`;
}

interface EventRow { service: string; event_id: string; upstream_key: string; sealed_event: Buffer | null; received_at: string; age_ms: string; tries: number }

/** The newest that was sent: one that was not can have had no effect yet. */
const byKeyText = `
select ${operationColumns} from operations o
where o.upstream_key = $1 and o.effect <> 'none' and o.first_sent_at is not null
order by o.created_at desc, o.generation desc
limit 1`;

/**
 * Positive evidence is monotone: from here on no transition denies the effect or sends again. What nobody works on is due at once; whoever
 * works on it keeps the lease and is woken.
 */
const hastenText = `
update operations o set
  effect_seen = o.effect_seen or $3::boolean,
  due_at = case when o.owner is null then least(o.due_at, now()) else o.due_at end
where o.tenant = $1 and o.operation_id = $2
  and (o.state in ('sending', 'accepted', 'unknown') or o.state = 'committed' and o.due_at is not null)`;

const endText = `
update callbacks c set due_at = null, sealed_event = null, tenant = $4, operation_id = $5, weighed = $6
where c.service = $1 and c.event_id = $2 and c.upstream_key = $3 and c.due_at is not null`;

const deferText = `
update callbacks c set due_at = now() + $6::float8 * interval '1 ms', tenant = $4, operation_id = $5
where c.service = $1 and c.event_id = $2 and c.upstream_key = $3 and c.due_at is not null`;

/** A service stops delivering an event again long before that. */
export const forgetCallbacks: Statement = {
  name: 'forget_callbacks', values: [],
  text: `delete from callbacks c where (c.service, c.event_id, c.upstream_key) in (
    select d.service, d.event_id, d.upstream_key from callbacks d
    where d.due_at is null and d.received_at < now() - interval '30 days'
    limit 10000
    for update skip locked)`,
};

/** @param run off the path of a call */
export function openCallbacks(run: Run, sealer: Sealer): Callbacks {
  const toEvents = (rows: EventRow[]): CallbackEvent[] => rows.flatMap((row) => toEvent(row, sealer) ?? []);
  return {
    async keep({ service, id, keys, headers, body, bytes }) {
      const sealed = sealer.seal(JSON.stringify({ headers, body }), eventPlace(service, id));
      const [row] = await run<{ kept: number; same: boolean | null }>({
        name: 'keep_callback', text: keepText, values: [service, id, [...keys], hex(sha256(bytes)), hex(sealed)],
      });
      return row && row.kept > 0 ? 'kept' : row?.same === false ? 'differs' : 'repeated';
    },
    async about(upstreamKey) {
      return toEvents(await run<EventRow>({
        name: 'callbacks_about', values: [upstreamKey],
        text: `select ${eventColumns('c')} from callbacks c where c.upstream_key = $1 and c.sealed_event is not null order by c.received_at limit ${eventsAtMost}`,
      }));
    },
    async take(limit, leaseMs) {
      const rows = await run<EventRow>({ name: 'take_callbacks', text: takeText, values: [leaseMs, limit] });
      return rows.flatMap((row): KeptCallback[] => {
        const { service, event_id: id, upstream_key: key, tries, age_ms: age } = row;
        return [{ service, id, key, tries, ageMs: Number(age), event: toEvent(row, sealer) ?? null }];
      });
    },
    async operation(upstreamKey): Promise<Operation | null> {
      const [row] = await run<OperationRow>({ name: 'by_upstream_key', text: byKeyText, values: [upstreamKey] });
      return row ? toOperation(row, sealer) : null;
    },
    hasten: async ({ tenant, id }, effectSeen) => void (await run({ name: 'hasten', text: hastenText, values: [tenant, id, effectSeen] })),
    end: async ({ service, id, key }, weighed, operation) => void (await run({
      name: 'end_callback', text: endText, values: [service, id, key, operation?.tenant ?? null, operation?.id ?? null, weighed],
    })),
    defer: async ({ service, id, key }, ms, operation) => void (await run({
      name: 'defer_callback', text: deferText, values: [service, id, key, operation?.tenant ?? null, operation?.id ?? null, ms],
    })),
  };
}

/** One that does not open (sealed under another key) is as one that never came: nothing may be guessed of it. */
function toEvent({ service, event_id: id, upstream_key: key, sealed_event: sealed, received_at: receivedAt }: EventRow, sealer: Sealer): CallbackEvent | undefined {
  if (!sealed) return undefined;
  try {
    return { service, id, key, receivedAt, ...(JSON.parse(sealer.open(sealed, eventPlace(service, id))) as Pick<CallbackEvent, 'headers' | 'body'>) };
  } catch {
    return undefined;
  }
}
