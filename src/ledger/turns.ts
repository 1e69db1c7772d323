/**
 * The first call of a turn draws one from its session's budget. Three statements of one transaction: the purse must exist before it can be
 * locked, turns are granted only from the locked row, and who waited for that lock sees only afterwards that the turn was drawn meanwhile.
 */
import type { Purse, TurnDraw } from '../gate/ports.js';
import type { Statement } from './connection.js';
import type { LaneStatement } from './pipeline.js';

const askedText = `
  select a.*, coalesce('session:' || s.root_session_id, a.own) as scope
  from json_to_recordset($1::json) as a (n integer, tenant text, session_id text, own text, turn_id text, quota integer)
  left join sessions s on s.tenant = a.tenant and s.session_id = a.session_id`;

const openText = `
insert into budgets (tenant, scope, kind, quota)
select distinct on (a.tenant, a.scope) a.tenant, a.scope, 'turns', a.quota
from (${askedText}) a
order by a.tenant, a.scope
on conflict do nothing`;

const drawText = `
with asked as materialized (${askedText}),
purse as materialized (
  select b.tenant, b.scope, b.quota, b.used
  from budgets b
  where b.kind = 'turns' and (b.tenant, b.scope) in (select a.tenant, a.scope from asked a)
  order by b.tenant, b.scope
  for update
),
placed as materialized (
  select a.*, row_number() over (partition by a.tenant, a.scope order by a.n) as place
  from asked a
  left join lateral (
    select 1 as there from session_turns t
    where t.tenant = a.tenant and t.scope = a.scope and t.session_id = a.session_id and t.turn_id = a.turn_id limit 1) known on true
  where known.there is null
),
drawn as (
  insert into session_turns (tenant, scope, session_id, turn_id)
  select p.tenant, p.scope, p.session_id, p.turn_id
  from placed p
  join purse b on b.tenant = p.tenant and b.scope = p.scope
  where b.used + p.place <= b.quota
  order by p.tenant, p.scope, p.session_id, p.turn_id
  on conflict do nothing
  returning tenant, scope
)
update budgets b set used = b.used + d.n
from (select tenant, scope, count(*)::integer as n from drawn group by tenant, scope) d
where b.tenant = d.tenant and b.scope = d.scope and b.kind = 'turns'`;

const drawnText = `
select a.n, t.there is not null as drawn, b.quota, b.used
from (${askedText}) a
left join budgets b on b.tenant = a.tenant and b.scope = a.scope and b.kind = 'turns'
left join lateral (
  select 1 as there from session_turns t
  where t.tenant = a.tenant and t.scope = a.scope and t.session_id = a.session_id and t.turn_id = a.turn_id limit 1) t on true
order by a.n`;

export const turnsForgottenAtOnce = 1_000;

/** Nobody sends a turn of a month ago again; who does is charged for it as for another one. In slices, so that no sweep holds many rows. */
export const forgetTurns: Statement = {
  name: 'forget_turns', values: [],
  text: `with gone as (
    delete from session_turns t
    where (t.tenant, t.scope, t.session_id, t.turn_id) in (
      select f.tenant, f.scope, f.session_id, f.turn_id from session_turns f where f.created_at < now() - interval '30 days'
      order by f.created_at limit ${turnsForgottenAtOnce} for update skip locked)
    returning 1
  )
  select count(*)::integer as gone from gone`,
};

export interface TurnRow { n: number; drawn: boolean; quota: number; used: number }

export function turnStatements(draws: TurnDraw[]): LaneStatement[] {
  const values = [JSON.stringify(draws.map(({ tenant, session, turnId, limit }, n) => ({ n, tenant, session_id: session.id, own: session.own, turn_id: turnId, quota: limit })))];
  return [
    { name: 'turn_purses', text: openText, values },
    { name: 'draw_turns', text: drawText, values },
    { name: 'turns', text: drawnText, values },
  ];
}

export function toUndrawn(row: TurnRow): Purse | null {
  return row.drawn ? null : { limit: row.quota, used: row.used };
}

/** Two draws of one turn must not be in one flush: the second would find the first only in the next snapshot. */
export function turnKey({ tenant, session, turnId }: TurnDraw): string {
  return `t/${JSON.stringify([tenant, session.own, turnId])}`;
}

/** A turn that another replica drew in the same moment can take the place of one in our flush: it is asked for again while there is room. */
async function drawOrAgain(draw: (turn: TurnDraw) => Promise<Purse | null>, turn: TurnDraw): Promise<Purse | null> {
  for (;;) {
    const spent = await draw(turn);
    if (!spent || spent.used >= spent.limit) return spent;
  }
}

const rememberedAtMost = 10_000;

/** A turn is charged once: what this process knows to be paid for, or is asking about right now, costs no statement. */
export function rememberTurns(draw: (turn: TurnDraw) => Promise<Purse | null>): (turn: TurnDraw) => Promise<Purse | null> {
  const known = new Map<string, Promise<Purse | null>>();
  return (turn) => {
    const key = turnKey(turn);
    const before = known.get(key);
    if (before) return before;
    const drawn = drawOrAgain(draw, turn);
    if (known.size >= rememberedAtMost) known.clear();
    known.set(key, drawn);
    const forget = (): void => {
      if (known.get(key) === drawn) known.delete(key);
    };
    drawn.then((spent) => (spent ? forget() : undefined), forget);
    return drawn;
  };
}
