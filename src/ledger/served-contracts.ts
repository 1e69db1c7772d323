/**
 * Under which contract of which catalogue operations were decided, once for each pair of digests. Known before a catalogue is served, and looked
 * up by every statement that names one: an id that a process remembered could be of another contract after a failover.
 */
import type { Statement } from './connection.js';

const knowText = `
insert into served_contracts (contract_digest, catalogue_digest)
select k.contract_digest, $1
from (select distinct k.contract_digest from unnest($2::text[]) as k (contract_digest)) k
left join lateral (
  select 1 as there from served_contracts s where s.contract_digest = k.contract_digest and s.catalogue_digest = $1 limit 1) known on true
where known.there is null
order by k.contract_digest
on conflict do nothing`;

export function knowStatement(catalogue: string, contracts: readonly string[]): Statement {
  return { name: 'know_contracts', text: knowText, values: [catalogue, contracts] };
}

/** Of a row with both digests: its id, or null where nobody knows it. */
export function servedOf(alias: string): string {
  return `(select s.id from served_contracts s where s.contract_digest = ${alias}.contract_digest and s.catalogue_digest = ${alias}.catalogue_digest)`;
}
