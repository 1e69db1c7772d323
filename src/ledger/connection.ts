/** Connections to Postgres: a pool for plain queries, and one pipelined connection per lane that is replaced when it breaks. */
import pg from 'pg';
import type { ErrorKind } from './lane.js';

export interface ConnectionOptions {
  url: string;
  /** Off behind pgbouncer in transaction mode: statements are then planned each time, with their values. */
  preparedStatements: boolean;
  statementTimeoutMs: number;
  connectTimeoutMs: number;
}

/**
 * Lane statements look rows up by key alone. A generic plan that was cached while the tables were empty would keep scanning
 * them for ever after (performance.md, "Plan trap"), so the lane's own session may only walk indexes.
 */
const indexPlans = '-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off';

export interface Statement {
  name: string;
  text: string;
  values: unknown[];
}

export class LaneConnection {
  private client: Promise<pg.Client> | undefined;

  constructor(private readonly options: ConnectionOptions) {}

  /** Statements of one transaction, sent in one go; results in order. @throws the first error; then nothing was committed, save when the acknowledgement was lost. */
  async run(statements: Statement[]): Promise<pg.QueryResult[]> {
    const client = await this.connected();
    const [only] = statements;
    try {
      if (statements.length === 1 && only) return [await this.send(client, only)];
      const sent = [
        client.query('begin'),
        ...statements.map((statement) => this.send(client, statement)),
        client.query('commit'),
      ];
      const results = await Promise.allSettled(sent);
      const failed = results.find((result) => result.status === 'rejected');
      if (failed) throw failed.reason;
      return results.slice(1, -1).map((result) => (result as PromiseFulfilledResult<pg.QueryResult>).value);
    } catch (error) {
      if (errorKind(error) === 'unavailable') this.drop(client);
      throw error;
    }
  }

  async close(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    await client?.then((open) => open.end()).catch(() => undefined);
  }

  private send(client: pg.Client, { name, text, values }: Statement): Promise<pg.QueryResult> {
    return client.query(this.options.preparedStatements ? { name, text, values } : { text, values });
  }

  private connected(): Promise<pg.Client> {
    this.client ??= this.connect().catch((error: unknown) => {
      this.client = undefined;
      throw error;
    });
    return this.client;
  }

  private async connect(): Promise<pg.Client> {
    const client = new pg.Client({
      ...clientConfig(this.options),
      pipeline: true,
      ...(this.options.preparedStatements ? { options: indexPlans } : {}),
    } as pg.ClientConfig);
    client.on('error', () => this.drop(client));
    await client.connect();
    return client;
  }

  private drop(client: pg.Client): void {
    this.client = undefined;
    client.end().catch(() => undefined);
  }
}

export function createPool(options: ConnectionOptions, max: number): pg.Pool {
  const pool = new pg.Pool({ ...clientConfig(options), max });
  pool.on('error', () => undefined); // an idle connection that broke is replaced by the pool
  return pool;
}

function clientConfig(options: ConnectionOptions): pg.ClientConfig {
  return {
    connectionString: options.url,
    connectionTimeoutMillis: options.connectTimeoutMs,
    query_timeout: options.statementTimeoutMs,
    keepAlive: true,
    application_name: 'callgate',
  };
}

/**
 * `unavailable`: lost or refused connections (no SQLSTATE, class 08, 57P), a server that cannot write now (25006 after a
 * failover, 53 out of resources). `contention`: serialization failures and deadlocks. Everything else is about a row.
 */
export function errorKind(error: unknown): ErrorKind {
  const code = (error as { code?: unknown }).code;
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || /^E[A-Z]/.test(code)) return 'unavailable';
  if (code.startsWith('40')) return 'contention';
  return /^(08|53|57|58|25006|25P|XX)/.test(code) ? 'unavailable' : 'row';
}
