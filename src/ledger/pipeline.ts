/**
 * The statements of a flush as one exchange with Postgres: each is bound and executed, and one Sync stands at the end. Without a BEGIN that Sync ends
 * an implicit transaction ("Pipelining" in its protocol description): all is committed or nothing, with one write here, one read there and one answer.
 *
 * A client of `pg` takes it as it takes a cursor. What a prepared statement returns is described once for a connection.
 */
import pg from 'pg';

export interface LaneStatement {
  /** Of its rows. */
  name: string;
  /** Under which this text is prepared, where there are several of that name. */
  variant?: string;
  text: string;
  /** Text as Postgres reads it; a boolean is written out. */
  values: (string | boolean)[];
}

export type Row = Record<string, unknown>;

/** `blank` has every name: rows are copies of it, which costs less than to put each together. */
interface Shape { columns: readonly { name: string; read(text: string): unknown }[]; blank: Row }

/** Of one connection: the statements that it has prepared, and what they return. */
export type Prepared = Map<string, Shape>;

const nothing: Shape = { columns: [], blank: {} };

type Settled = (error: Error | null, results: Map<string, Row[]>) => void;

export class Pipeline implements pg.Submittable {
  private readonly results = new Map<string, Row[]>();
  private readonly described: Prepared = new Map();
  private at = 0;
  private rows: Row[] = [];
  private unreadable: Error | undefined;

  /**
   * @param prepared null where statements are not to be kept (behind pgbouncer in transaction mode)
   * @param callback rows by the statement's name; `pg` puts its own around it to bound the time
   */
  constructor(private readonly statements: readonly LaneStatement[], private readonly prepared: Prepared | null, public callback: Settled) {}

  submit(connection: pg.Connection): void {
    connection.stream.cork();
    try {
      for (const statement of this.statements) this.send(connection, statement);
      connection.sync();
    } finally {
      connection.stream.uncork();
    }
  }

  private send(connection: pg.Connection, { name: rows, variant: name = rows, text, values }: LaneStatement): void {
    const known = this.prepared?.has(name) ?? false;
    const kept = this.prepared ? name : '';
    if (!known) {
      // An exchange that failed leaves open which of its statements were prepared; closing one that is not there is no error.
      if (kept !== '') connection.close({ type: 'S', name: kept }, true);
      connection.parse({ name: kept, text, types: [] }, true);
    }
    connection.bind({ portal: '', statement: kept, values: values.map(String) }, true);
    if (!known) connection.describe({ type: 'P', name: '' }, true);
    connection.execute({ portal: '' }, true);
  }

  handleRowDescription({ fields }: { fields: { name: string; dataTypeID: number }[] }): void {
    this.described.set(this.name, {
      columns: fields.map(({ name, dataTypeID }) => ({ name, read: pg.types.getTypeParser(dataTypeID, 'text') as (text: string) => unknown })),
      blank: Object.fromEntries(fields.map(({ name }) => [name, null])),
    });
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    try {
      const { columns, blank } = this.shape;
      const row: Row = { ...blank };
      for (const [n, { name, read }] of columns.entries()) {
        const text = fields[n] ?? null;
        if (text !== null) row[name] = read(text);
      }
      this.rows.push(row);
    } catch (error) {
      this.unreadable ??= error as Error;
    }
  }

  handleCommandComplete(): void {
    this.results.set(this.statement.name, this.rows);
    if (!this.described.has(this.name) && !this.prepared?.has(this.name)) this.described.set(this.name, nothing);
    this.rows = [];
    this.at++;
  }

  handleReadyForQuery(): void {
    for (const [name, shape] of this.described) this.prepared?.set(name, shape);
    this.callback(this.unreadable ?? null, this.results);
  }

  handleError(error: Error): void {
    this.callback(error, this.results);
  }

  private get name(): string {
    return this.statement.variant ?? this.statement.name;
  }

  private get statement(): LaneStatement {
    return this.statements[this.at] as LaneStatement;
  }

  private get shape(): Shape {
    return this.described.get(this.name) ?? this.prepared?.get(this.name) ?? nothing;
  }
}
