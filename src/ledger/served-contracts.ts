/**
 * Under which contract of which catalogue operations were decided, once for each pair of digests. Known before the first operation that names it,
 * and looked up by every statement that does: an id that this process remembered could be of another contract after a failover.
 */
import type { LaneStatement } from './pipeline.js';

export interface ServedContract { contractDigest: string; catalogueDigest: string }

const knowText = `
insert into served_contracts (contract_digest, catalogue_digest)
select k.contract_digest, k.catalogue_digest
from json_to_recordset($1::json) as k (contract_digest text, catalogue_digest text)
left join lateral (
  select 1 as there from served_contracts s where s.contract_digest = k.contract_digest and s.catalogue_digest = k.catalogue_digest limit 1) known on true
where known.there is null
order by k.contract_digest, k.catalogue_digest
on conflict do nothing`;

export function knowStatement(contracts: readonly ServedContract[]): LaneStatement {
  return {
    name: 'know_contracts', text: knowText,
    values: [JSON.stringify(contracts.map(({ contractDigest, catalogueDigest }) => ({ contract_digest: contractDigest, catalogue_digest: catalogueDigest })))],
  };
}

/** Of a row with both digests: its id, or null where nobody knows it. */
export function servedOf(alias: string): string {
  return `(select s.id from served_contracts s where s.contract_digest = ${alias}.contract_digest and s.catalogue_digest = ${alias}.catalogue_digest)`;
}
