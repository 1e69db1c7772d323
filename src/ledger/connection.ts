/** Connections to Postgres: a pool for plain queries, and one pipelined connection per lane that is replaced when it breaks. */
import pg from 'pg';
import { LedgerUnavailable } from '../errors.js';
import { type ErrorKind, mayTryAgain } from './lane.js';
import { type LaneStatement, Pipeline, type Prepared, type Row } from './pipeline.js';

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

/**
 * All that a lane's statements take is one JSON text, of which a plan learns nothing; left to itself Postgres planned each execution anew all the same,
 * which was more than a quarter of its time.
 */
const plansAreKept = '-c plan_cache_mode=force_generic_plan';

/** Of `receipts`: what is packed names a dictionary that is there. */
const dictionaryThere = 'receipts_whole';

export interface Statement {
  name: string;
  text: string;
  values: unknown[];
}

const firstPlanAgain = 8;

interface Open { client: pg.Client; prepared: Prepared | null }

export class LaneConnection {
  private rows = 0;
  private planAgainAt = firstPlanAgain;
  private opening: Promise<Open> | undefined;
  private open: pg.Client | undefined;
  private closed = false;

  /** @param grown told when so much has been written that what Postgres knows of the tables is old. */
  constructor(private readonly options: ConnectionOptions, private readonly grown: () => void = () => undefined) {}

  /** One transaction, sent in one go; rows by the statement's name. @throws the first error; then nothing was committed, save when the acknowledgement was lost. */
  async run(statements: readonly LaneStatement[], rows = 1): Promise<Map<string, Row[]>> {
    const { client, prepared } = await this.connected();
    try {
      this.planAgain(client, rows);
      return await new Promise((resolve, reject) => {
        client.query(new Pipeline(statements, prepared, (error, results) => (error ? reject(error) : resolve(results))));
      });
    } catch (error) {
      if (errorKind(error) === 'unavailable') this.drop(client);
      throw error;
    }
  }

  /**
   * A plan that was made over an empty table may take any index that begins with the tenant, and reads all of the tenant's rows once there
   * are some: 114 ms in the place of 12 for 64 intents over 5,000 operations. So plans are made again as the tables grow, until statistics
   * come in, which invalidate plans by themselves.
   */
  private planAgain(client: pg.Client, rows: number): void {
    this.rows += rows;
    if (!this.options.preparedStatements || this.rows < this.planAgainAt) return;
    this.planAgainAt = this.rows * 2;
    client.query('discard plans').catch(() => undefined);
    this.grown();
  }

  /** The next statement goes over a new connection. */
  abandon(): void {
    const { opening } = this;
    this.opening = undefined;
    void opening?.then(({ client }) => client.end()).catch(() => undefined);
  }

  async close(): Promise<void> {
    this.closed = true;
    const { opening } = this;
    this.opening = undefined;
    await opening?.then(({ client }) => client.end()).catch(() => undefined);
  }

  private connected(): Promise<Open> {
    if (this.closed) return Promise.reject(new Error('the ledger is closed'));
    if (this.opening) return this.opening;
    const opening = this.connect();
    this.opening = opening;
    opening.catch(() => this.forget(opening));
    return opening;
  }

  private async connect(): Promise<Open> {
    const { preparedStatements } = this.options;
    const client = new pg.Client({ ...clientConfig(this.options), ...(preparedStatements ? { options: `${indexPlans} ${plansAreKept}` } : {}) });
    client.on('error', () => this.drop(client));
    await client.connect();
    this.open = client;
    return { client, prepared: preparedStatements ? new Map() : null };
  }

  /** An old connection can report its end after a new one has taken its place. */
  private drop(client: pg.Client): void {
    if (this.open === client) this.opening = undefined;
    client.end().catch(() => undefined);
  }

  private forget(opening: Promise<Open>): void {
    if (this.opening === opening) this.opening = undefined;
  }
}

const used = new WeakSet<pg.PoolClient>();

/** For anything, before it was taken from its pool this time. */
export const wasUsed = (client: pg.PoolClient): boolean => used.has(client);

export function createPool(options: ConnectionOptions, max: number): pg.Pool {
  // Bounded in age: after a failover a connection to the old primary may go on answering reads, and is used as long as it does.
  const pool = new pg.Pool({ ...clientConfig(options), max, maxLifetimeSeconds: 60 });
  // In use, between two statements: without a listener the error would end the process. The next statement fails by it.
  pool.on('connect', (client) => client.on('error', () => undefined));
  pool.on('release', (_, client) => void used.add(client));
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

/** A row that could not even be put into words. */
export class Unwritable extends Error {
  constructor(cause: unknown) {
    super('a row cannot be written', { cause });
    this.name = 'Unwritable';
  }
}

/** Of a server that was a primary once. */
export function isReadOnly(error: unknown): boolean {
  return (error as { code?: unknown }).code === '25006';
}

/**
 * `unavailable`: lost or refused connections (no SQLSTATE, class 08, 57P, 28 of a role that is not let in), a server that cannot write now (25006 after a
 * failover, 53 out of resources). `contention`: serialization failures, deadlocks, and a dictionary that is not there (any more), with which the next try begins. Everything
 * else is about a row.
 */
export function errorKind(error: unknown): ErrorKind {
  if (error instanceof Unwritable) return 'row';
  const code = (error as { code?: unknown }).code;
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || /^E[A-Z]/.test(code)) return 'unavailable';
  if (code.startsWith('40') || (error as { constraint?: unknown }).constraint === dictionaryThere) return 'contention';
  return /^(08|28|53|57|58|25006|25P|XX)/.test(code) ? 'unavailable' : 'row';
}

/** What the ledger throws for it: an error about a row as it is, and everything else as the ledger being away. */
export function failureOf(error: unknown): unknown {
  return errorKind(error) === 'row' ? error : new LedgerUnavailable(error, ailmentOf(error));
}

/** What lost against another transaction has left nothing, and is done again; of a connection that broke that is not known. @throws what `failureOf` makes of it */
export async function throughContention<T>(work: () => Promise<T>, retried?: (because: ErrorKind) => void): Promise<T> {
  for (let n = 0; ; n++) {
    try {
      return await work();
    } catch (error) {
      if (errorKind(error) !== 'contention' || !(await mayTryAgain('contention', n))) throw failureOf(error);
      retried?.('contention');
    }
  }
}

const ailments: Readonly<Record<string, string>> = {
  25006: 'the server is read-only',
  28000: 'the server does not let this role in: it was cut off, or `database.url` is of another one',
  '28P01': 'the server does not take this role\u2019s password: was it changed, or the role cut off?',
  40001: 'transactions kept getting into one another\u2019s way: there are too many at a time for this isolation level',
  53100: 'its disk is full: free or add space; then it goes on by itself',
  53200: 'the server is out of memory',
  53300: 'the server has no connection left: raise `max_connections`, end other clients, or lower `database.pool_size`; then it goes on by itself',
  '57P03': 'the server is starting or stopping',
};

/** In words for the operator; undefined where the error says all there is. */
export function ailmentOf(error: unknown): string | undefined {
  return ailments[String((error as { code?: unknown }).code)];
}
