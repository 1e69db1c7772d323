/**
 * In which order the calls of a turn run (semantics.md section 7). Pure: what a call does and what became of it comes through `Run`.
 *
 * Calls that meet on an entity run one after another: the first listed write that is legal in the present state, again and again, which
 * is the listed order wherever that is legal throughout. A read comes after every write listed before it. What stays illegal is refused
 * last. A write that did not commit stops the writes behind it on what it would have changed. Calls that do not meet run in parallel.
 */

export interface Ordered {
  position: number;
  write: boolean;
  /** What it is on or may change, as far as the call itself tells. */
  keys: readonly string[];
  /** Calls that share one of these run one after another: `keys`, and whatever may turn out to be one. */
  lines: readonly string[];
  /** Of a write: whether it may come too early, and the tables that judge it, of entities that the call itself tells. */
  judged: boolean;
  tables: readonly { entity: string; legalIn(state: string): boolean }[];
  /** Positions that it comes after in any state: earlier occurrences of the same write. */
  after: readonly number[];
}

/** What became of a call. `illegal`: refused by the transition table, which stops nobody else. */
export type Ending = 'committed' | 'illegal' | 'failed' | 'unavailable' | 'unknown';

/** How a write before it ended that stops this one. */
export type Stopped = Exclude<Ending, 'committed' | 'illegal'>;

export interface Ended {
  ending: Ending;
  /** What it was on, where more was found out than the call itself tells. */
  keys?: readonly string[];
  /** As far as the answer told them. */
  states: Readonly<Record<string, string>>;
}
/** Not legal in these states, and not answered. */
export interface NotLegal { notLegalIn: Readonly<Record<string, string>> }

export interface Mode {
  /** Refuse what is not legal, instead of giving it back. */
  insist: boolean;
  /** Whether a write before it stops whoever is on these; only an answer that it has already is then given. */
  stopped(keys: readonly string[]): Stopped | null;
  /** Others ran before it. */
  waited: boolean;
}

export type Run = (call: Ordered, mode: Mode) => Promise<Ended | NotLegal>;

export async function runInOrder(calls: readonly Ordered[], run: Run): Promise<void> {
  const writes: { position: number; done: Promise<unknown> }[] = [];
  const begun: Promise<unknown>[] = [];
  const start = (group: readonly Ordered[]): void => {
    const ends = new Map(group.map(({ position }) => [position, signal()]));
    for (const { position, write } of group) if (write) writes.push({ position, done: (ends.get(position) as Signal).heard });
    begun.push(new Sequence(group, run, (position) => ends.get(position)?.give()).run());
  };
  const groups = connected(calls.filter(({ lines }) => lines.length > 0));
  for (const group of groups) {
    if (group.some(({ write }) => write)) start(group);
    else for (const call of group) start([call]);
  }
  const elsewhere = calls.filter(({ lines }) => lines.length === 0);
  for (const call of elsewhere.filter(({ write }) => write)) start([call]);
  for (const call of elsewhere.filter(({ write }) => !write)) {
    const before = writes.filter(({ position }) => position < call.position);
    begun.push(Promise.all(before.map(({ done }) => done)).then(() => run(call, { insist: true, stopped: () => null, waited: before.length > 0 })));
  }
  await Promise.all(begun);
}

/** Calls in one line, or linked by one that is in both, each group in the order listed. */
function connected(calls: readonly Ordered[]): Ordered[][] {
  let groups: { lines: Set<string>; calls: Ordered[] }[] = [];
  for (const call of calls) {
    const meets = groups.filter(({ lines }) => call.lines.some((line) => lines.has(line)));
    const joined = { lines: new Set([...meets.flatMap(({ lines }) => [...lines]), ...call.lines]), calls: [...meets.flatMap((group) => group.calls), call] };
    groups = [...groups.filter((group) => !meets.includes(group)), joined];
  }
  return groups.map((group) => group.calls.sort((a, b) => a.position - b.position));
}

class Sequence {
  private waiting: Ordered[];
  /** As last seen; absent: not known. */
  private readonly states = new Map<string, string>();
  private readonly stops = new Map<string, Stopped>();
  private ran = 0;

  constructor(group: readonly Ordered[], private readonly runCall: Run, private readonly ended: (position: number) => void) {
    this.waiting = [...group];
  }

  async run(): Promise<void> {
    while (this.waiting.length > 0) {
      if (await this.runNextLegal()) continue;
      const first = this.waiting.find((call) => call.write && this.mayRun(call)) as Ordered;
      await this.attempt(first, true);
    }
  }

  private async runNextLegal(): Promise<boolean> {
    for (const call of this.waiting) {
      if (!this.mayRun(call)) continue;
      const stopped = call.write && this.stopped(call.keys) !== null;
      if (!stopped && this.knownIllegal(call)) continue;
      if (await this.attempt(call, stopped || !call.judged)) return true;
    }
    return false;
  }

  /** Whether everything is done that it comes after in any state. */
  private mayRun(call: Ordered): boolean {
    return !this.waiting.some(({ position, write }) => (call.write ? call.after.includes(position) : write && position < call.position));
  }

  /** What is not known comes before what is known to have failed: waiting may still settle it. */
  private stopped(keys: readonly string[]): Stopped | null {
    const stops = keys.map((key) => this.stops.get(key));
    return (['unknown', 'failed', 'unavailable'] as const).find((ending) => stops.includes(ending)) ?? null;
  }

  private knownIllegal({ tables }: Ordered): boolean {
    return tables.some(({ entity, legalIn }) => {
      const state = this.states.get(entity);
      return state !== undefined && !legalIn(state);
    });
  }

  /** True: it has its answer. */
  private async attempt(call: Ordered, insist: boolean): Promise<boolean> {
    const result = await this.runCall(call, { insist, stopped: (keys) => (call.write ? this.stopped(keys) : null), waited: this.ran > 0 });
    if ('notLegalIn' in result) {
      this.sawStates(result.notLegalIn);
      return false;
    }
    this.ran++;
    this.waiting = this.waiting.filter((other) => other !== call);
    if (call.write) this.learn(call, result);
    this.ended(call.position);
    return true;
  }

  private learn(call: Ordered, { ending, keys = call.keys, states }: Ended): void {
    for (const key of keys) {
      if (ending !== 'illegal') this.states.delete(key);
      if (ending !== 'illegal' && ending !== 'committed') this.stops.set(key, ending);
    }
    this.sawStates(states);
  }

  private sawStates(states: Readonly<Record<string, string>>): void {
    for (const [entity, state] of Object.entries(states)) this.states.set(entity, state);
  }
}

interface Signal { heard: Promise<void>; give(): void }

function signal(): Signal {
  let give: () => void = () => undefined;
  const heard = new Promise<void>((resolve) => { give = resolve; });
  return { heard, give };
}
