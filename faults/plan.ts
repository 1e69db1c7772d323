/**
 * What is proposed, drawn from the seed before anything runs: intents, each with all the ways in which a model, a client library or an impatient
 * host proposes it again. An effect at the service is traced back to its intent by order and amount alone, never by the gateway's ids.
 */
import { type Customer, deliveredOrder, keptPending, nearlyEmpty, pendingOrder, type Stock } from './orders.js';
import { type Random, seeded } from './random.js';

export interface Intent {
  id: string;
  /** `2` is of another tenant than `0` and `1`, which are two users of one. */
  customer: Customer;
  tool: 'issue_credit' | 'cancel_order' | 'get_order' | 'quote_credit' | 'void_credit';
  args: Record<string, unknown>;
  /** Members that belong to this call beside tool and arguments. */
  envelope: Record<string, unknown>;
  /** `effect`: one, if it is not given up; `budgeted`: one if the budget has room; `none`: it must be refused, or only reads. */
  expects: 'effect' | 'budgeted' | 'refusal' | 'read';
  /** What the person does who is asked, where one is. */
  verdict: 'approve' | 'reject';
}

export type Form = 'call' | 'text' | 'batch' | 'openai-chat' | 'anthropic';

/** One way to propose all intents of a step. Equal `ids`: the very same request again; others: planned again, or by another client. */
export interface Proposal { form: Form; ids: string; replica: number; pauseMs: number }

export interface UpstreamFault { tool: string; kind: string; ms: number }

export interface Step {
  n: number;
  kind: StepKind;
  session: string;
  /** Absent: the session stands for it. */
  intentId: string | null;
  intents: Intent[];
  proposals: Proposal[];
  /** Proposals are made at once, not one after another. */
  together: boolean;
  /** How often an answer that asks for it is followed; 0: whatever comes first is left as it is until everything is quiet, or for good. */
  patience: number;
  /** Nothing is proposed any more after a refusal that sent nothing. */
  givesUp: boolean;
  faults: UpstreamFault[];
  /** Executions of the session. */
  budget: number | null;
  /** Made with the receipt of the first intent, when that has taken effect. */
  voids: Intent | null;
}

const weights = { single: 38, batch: 11, turn: 11, cancel: 8, void: 5, budget: 4, refusal: 8, stranger: 4, twins: 4, keyed: 5, read: 6 };
type StepKind = keyof typeof weights;

export const stockFor = (steps: number): Stock => ({ delivered: Math.max(8, Math.ceil(steps / 12)), pending: steps });

/** With double effect: the service breaks its own promise, which only a person can settle. */
const writeFaults = {
  commit_then_drop: 6, commit_then_500: 6, drop_before_commit: 6, '503_not_started': 5, delay_commit: 5, slow_reply: 4, truncate_body: 4, bad_json: 4,
  accept_202: 5, '429': 1, double_effect: 1,
};
const readFaults = { drop_before_commit: 3, commit_then_500: 3, truncate_body: 3, bad_json: 2, slow_reply: 1, '503_not_started': 2 };

export interface Windows { deadlineMs: number; settleMs: number }

export function stepOf(seed: number, run: string, n: number, stock: Stock, windows: Windows): Step {
  const random = seeded(seed * 1_000_003 + n);
  const kind = random.weighted(weights);
  const draft: Draft = { random, n, stock, prefix: `${run}-${n}`, customer: random.below(3) as Customer };
  const intents = intentsOf[kind](draft);
  const session = `s-${draft.prefix}`;
  return {
    n, kind, session, intents,
    intentId: random.chance(0.5) ? `i-${draft.prefix}` : null,
    proposals: proposalsOf(random, kind),
    together: random.chance(0.4),
    patience: random.chance(0.7) ? random.between(1, 4) : 0,
    givesUp: (kind === 'single' || kind === 'cancel') && random.chance(0.15),
    faults: faultsOf(random, intents, windows),
    budget: kind === 'budget' ? random.between(1, 3) : null,
    voids: kind === 'void' ? { ...(intents[0] as Intent), id: `${draft.prefix}-v`, tool: 'void_credit', args: {} } : null,
  };
}

interface Draft { random: Random; n: number; stock: Stock; prefix: string; customer: Customer }

/** Up to 10,000 needs nobody's approval, up to 40,000 the application's, more than that two reviewers'. */
const plainAmount = (n: number): number => 100 + n * 6;

function credit(draft: Draft, i: number, change: Partial<Intent> = {}): Intent {
  const { random, n, stock, prefix, customer } = draft;
  const owner = change.customer ?? customer;
  const order = deliveredOrder(owner, random.below(stock.delivered));
  const band = random.chance(0.08) ? random.pick([10_001, 40_001]) : 0;
  const plain = plainAmount(n) + i;
  return {
    id: `${prefix}-${i}`, customer: owner, tool: 'issue_credit', args: { order_id: order, amount: band + (band > 0 ? plain - 100 : plain), currency: 'GBP' }, envelope: {},
    expects: 'effect', verdict: random.chance(0.8) ? 'approve' : 'reject', ...change,
  };
}

/** Amounts stay in their band and differ within a round. */
export const stepsPerRound = 1_600;

const intentsOf: Record<StepKind, (draft: Draft) => Intent[]> = {
  single: (draft) => [credit(draft, 0)],
  void: (draft) => [credit(draft, 0)],
  keyed: (draft) => [credit(draft, 0, { envelope: { idempotency_key: `k-${draft.prefix}` } })],
  batch: (draft) => Array.from({ length: draft.random.between(2, 5) }, (_, i) => credit(draft, i)),
  turn: (draft) => Array.from({ length: draft.random.between(1, 3) }, (_, i) => credit(draft, i)),
  budget: (draft) => Array.from({ length: draft.random.between(4, 6) }, (_, i) => credit(draft, i, { expects: 'budgeted' })),
  cancel: ({ n, prefix, customer, random }) => [{
    id: `${prefix}-0`, customer, tool: 'cancel_order', args: { order_id: pendingOrder(customer, n) }, envelope: {}, expects: 'effect',
    verdict: random.chance(0.8) ? 'approve' : 'reject',
  }],
  // The same words under the same ids from users of their own: each is another call.
  twins: (draft) => {
    const { prefix, n, stock, random } = draft;
    const place = random.below(stock.delivered);
    return ([0, 1, 2] as const).map((customer, i) => credit(draft, 0, {
      id: `${prefix}-${i}`, customer, args: { order_id: deliveredOrder(customer, place), amount: plainAmount(n), currency: 'GBP' },
    }));
  },
  // The very same call, ids and all, by somebody whose order it is not.
  stranger: (draft) => {
    const own = credit(draft, 0, { customer: 0 });
    return [own, ...([1, 2] as const).map((customer, i): Intent => ({ ...own, id: `${draft.prefix}-${i + 1}`, customer, expects: 'refusal' }))];
  },
  refusal: (draft) => {
    const { random, customer, n } = draft;
    const [amount, currency] = [plainAmount(n), 'GBP'];
    const change = random.pick<Partial<Intent>>([
      { args: { order_id: nearlyEmpty(customer), amount, currency } },
      { args: { order_id: keptPending(customer), amount, currency } },
      { args: { order_id: deliveredOrder(((customer + 1) % 3) as Customer, 0), amount, currency } },
      { args: { order_id: deliveredOrder(customer, 0), amount: String(amount), currency } },
      { args: { order_id: deliveredOrder(customer, 0), amount, currency, force: true } },
      { envelope: { expected_version: '"0"' }, args: { order_id: deliveredOrder(customer, 0), amount, currency } },
      { tool: 'cancel_order', args: { order_id: deliveredOrder(customer, 0) } },
    ]);
    return [credit(draft, 0, { ...change, expects: 'refusal' })];
  },
  read: ({ random, prefix, customer, stock }) => {
    const order_id = deliveredOrder(customer, random.below(stock.delivered));
    const intent = { id: `${prefix}-0`, customer, envelope: {}, expects: 'read', verdict: 'approve' } as const;
    return [random.chance(0.5) ? { ...intent, tool: 'get_order', args: { order_id } } : { ...intent, tool: 'quote_credit', args: { order_id, amount: 100 } }];
  },
};

function proposalsOf(random: Random, kind: StepKind): Proposal[] {
  const forms: readonly Form[] = kind === 'batch' ? ['batch'] : kind === 'turn' ? [random.pick(['openai-chat', 'anthropic'] as const)] : ['call', 'call', 'text'];
  const proposal = (ids: string): Proposal => ({ form: random.pick(forms), ids, replica: random.below(1_000), pauseMs: random.below(120) });
  const more = Array.from({ length: random.pick([0, 0, 1, 1, 2, 3]) }, (_, i) => proposal(random.chance(0.5) ? 'a' : `b${i}`));
  return [proposal('a'), ...more];
}

function faultsOf(random: Random, intents: readonly Intent[], { deadlineMs, settleMs }: Windows): UpstreamFault[] {
  const faults: UpstreamFault[] = [];
  for (const { tool, expects } of intents) {
    if (expects === 'refusal' || !random.chance(0.4)) continue;
    const writes = tool !== 'get_order' && tool !== 'quote_credit';
    const kind: string = random.weighted(writes ? (tool === 'issue_credit' ? writeFaults : { ...writeFaults, double_effect: 0 }) : readFaults);
    // A late commit comes within the settle window: what the contract promises, the service keeps.
    faults.push({ tool, kind, ms: kind === 'delay_commit' ? random.below(deadlineMs + settleMs / 3) : random.below(deadlineMs * 1.5) });
  }
  if (random.chance(0.08)) faults.push({ tool: random.pick(['get_credit_receipt', 'get_order']), kind: random.weighted(readFaults), ms: 100 });
  return faults;
}

export const disturbanceKinds = [
  'replica killed', 'replica frozen', 'replica drained', 'redis killed', 'redis flushed', 'redis frozen', 'postgres restarted', 'postgres killed', 'postgres cut off',
  'service killed', 'postgres failed over',
] as const;
export type DisturbanceKind = (typeof disturbanceKinds)[number];
export interface Disturbance { at: number; kind: DisturbanceKind; replica: number; ms: number }

/** When, in steps, what happens to the processes. */
export function disturbancesOf(seed: number, steps: number, kills: number, failover: boolean): Disturbance[] {
  const random = seeded(seed ^ 0x5eed);
  const some = (kind: DisturbanceKind, times: number, ms: [number, number]): Disturbance[] => Array.from({ length: times }, (_, i) => ({
    kind, replica: random.below(1_000), ms: random.between(...ms),
    // Spread evenly, each somewhere in its share of the run.
    at: Math.floor(((i + 0.1 + random.below(80) / 100) / times) * steps),
  }));
  const share = (of: number): number => (kills === 0 ? 0 : Math.max(1, Math.round(kills / of)));
  return [
    ...some('replica killed', kills, [0, 500]), ...some('replica frozen', share(10), [1_500, 4_000]), ...some('replica drained', share(15), [0, 300]),
    ...some('redis killed', share(12), [100, 1_500]), ...some('redis flushed', share(12), [0, 0]), ...some('redis frozen', share(12), [300, 2_000]),
    ...some('postgres restarted', share(30), [0, 300]), ...some('postgres killed', share(30), [0, 300]), ...some('postgres cut off', share(12), [0, 0]),
    ...some('service killed', share(12), [50, 800]),
    ...(failover ? [{ kind: 'postgres failed over' as const, replica: 0, ms: 0, at: Math.floor(steps / 2) }] : []),
  ].sort((a, b) => a.at - b.at);
}
