/** How Postgres carries out each statement that goes over a connection of this process while somebody watches. */
import pg from 'pg';

interface Node {
  'Node Type': string; 'Relation Name'?: string; 'Index Name'?: string; 'Actual Rows'?: number; 'Actual Loops'?: number; 'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number; 'Shared Hit Blocks'?: number; 'Shared Read Blocks'?: number; Plans?: Node[];
}

export interface Planned { text: string; values: unknown[]; plan: Node }

type Query = (this: pg.Client, ...args: unknown[]) => unknown;

const isStatement = /^\s*(with|select|insert|update|delete)\b/i;

/** Each statement is carried out twice: the first time to be explained, and undone. */
export async function watched(work: () => Promise<unknown>): Promise<Planned[]> {
  const seen: Planned[] = [];
  const prototype = pg.Client.prototype as unknown as { query: Query };
  const { query } = prototype;
  const ask = (client: pg.Client, text: string, values?: unknown[]) => query.call(client, text, values) as Promise<pg.QueryResult<{ 'QUERY PLAN': { Plan: Node }[] }>>;
  async function explain(client: pg.Client, text: string, values: unknown[]): Promise<void> {
    const within = (client as unknown as { getTransactionStatus(): string }).getTransactionStatus() === 'T';
    await ask(client, within ? 'savepoint explained' : 'begin');
    const { rows: [row] } = await ask(client, `explain (analyze, buffers, format json) ${text}`, values);
    await ask(client, within ? 'rollback to savepoint explained' : 'rollback');
    seen.push({ text, values, plan: row?.['QUERY PLAN'][0]?.Plan as Node });
  }
  prototype.query = function watchedQuery(...args) {
    const [config, values] = args as [string | { text?: string; values?: unknown[] }, unknown];
    const text = typeof config === 'string' ? config : config.text;
    if (text === undefined || !isStatement.test(text)) return query.apply(this, args);
    const explained = explain(this, text, Array.isArray(values) ? values : typeof config === 'string' ? [] : config.values ?? []);
    const callback = args.at(-1);
    if (typeof callback !== 'function') return explained.then(() => query.apply(this, args));
    return void explained.then(() => query.apply(this, args), (error: unknown) => (callback as (error: unknown) => void)(error));
  };
  try {
    await work();
  } finally {
    prototype.query = query;
  }
  return seen;
}

const large = /^(operations|receipts|calls|receipt_chain)$/;

/** What is wrong with a plan over those tables: whole tables, or more rows, or more pages, than `most` says. Empty: nothing. */
export function wrongWith({ plan }: Planned, most: { rows: number; blocks: number }): string[] {
  const wrong: string[] = [];
  for (const node of nodesOf(plan)) {
    const table = node['Relation Name'];
    if (table === undefined || !large.test(table)) continue;
    const loops = node['Actual Loops'] ?? 0;
    const read = loops * ((node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0));
    if (node['Node Type'] === 'Seq Scan') wrong.push(`goes through all of ${table}`);
    else if (read > most.rows) wrong.push(`reads ${read} rows of ${table} along ${node['Index Name']}`);
  }
  const blocks = (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
  if (blocks > most.blocks) wrong.push(`reads ${blocks} pages`);
  return wrong;
}

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}
