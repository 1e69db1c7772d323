/**
 * The eight invariants of the semantics (section 9) over one run. Pure, and apart from whatever drove the run: it believes the service's books
 * and what callers were told, and of the ledger only that it names what it knows.
 */
import { type Evidence, isUnheard, type LedgerEntry, openStates, type Said, type Told } from './history.js';
import { about, brief, meaningOf, storyOf } from './story.js';

export interface Violation { invariant: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9; what: string }

/** 9 is no invariant of its own: nothing is stuck past its deadline, without which the others could be kept by never answering. */
export const invariants: Record<Violation['invariant'], string> = {
  1: 'at most one effect per operation', 2: 'no effect without an intent, no end without a receipt', 3: 'one answer per call, the same for ever, as the books have it',
  4: 'a refusal causes no write', 5: 'nothing of one user in another’s answer', 6: 'budgets are exact', 7: 'what was approved is what is sent',
  8: 'losing Redis or Postgres changes no result', 9: 'nothing is stuck',
};

interface Effect { key: string; receiptId: string | null }
type Find = (told: Told) => Effect[];
type Check = (evidence: Evidence, effectsOf: Find) => Violation[];

export function check(evidence: Evidence): Violation[] {
  const effectsOf = indexOf(evidence);
  return [atMostOne, intended, answered, refusedMeansNothing, apart, budgeted, approved, ended].flatMap((one) => one(evidence, effectsOf));
}

/** By what was meant: order and amount, order, or receipt. Never by an id of the gateway's. */
function indexOf({ books }: Evidence): Find {
  const index = new Map<string, Effect[]>();
  const enter = (meaning: string, effect: Effect): void => { index.set(meaning, [...(index.get(meaning) ?? []), effect]); };
  for (const { order_id, amount, key, receipt_id } of books.credits) enter(`credit ${order_id} ${amount}`, { key, receiptId: receipt_id });
  for (const { order_id, key } of books.cancellations) enter(`cancel ${order_id}`, { key, receiptId: null });
  for (const { receipt_id, key } of books.voids) enter(`void ${receipt_id}`, { key, receiptId: receipt_id });
  return ({ intent }) => index.get(meaningOf(intent)) ?? [];
}

/** The service may break its promise where it was told to: twice under one key, and as often as that happened. */
const atMostOne: Check = ({ history, doubles }, effectsOf) => {
  const found: Violation[] = [];
  let doubled = 0;
  for (const told of history.told) {
    const effects = effectsOf(told);
    if (effects.length <= 1) continue;
    if (effects.length === 2 && effects[0]?.key === effects[1]?.key && told.intent.expects !== 'refusal' && ++doubled <= doubles) continue;
    if (told.intent.expects !== 'refusal') found.push({ invariant: 1, what: `${effects.length} effects under ${new Set(effects.map(({ key }) => key)).size} keys: ${about(told)}` });
  }
  return found;
};

const intended: Check = ({ books, ledger, history }) => {
  const known = new Map(ledger.map((entry) => [entry.id, entry]));
  const found: Violation[] = [];
  for (const { key } of [...books.credits, ...books.voids, ...books.cancellations]) {
    if (!has(known.get(key), 'decision')) found.push({ invariant: 2, what: `an effect under ${key}, of which there is ${known.has(key) ? 'no decision receipt' : 'no intent'}` });
  }
  for (const entry of ledger) {
    // Ended before anything was sent, which is a decision.
    const due = entry.state === 'cancelled' ? 'decision' : 'effect';
    if (!openStates.has(entry.state) && !has(entry, due)) found.push({ invariant: 2, what: `${entry.id} is ${entry.state} without ${due} receipt` });
  }
  for (const { final } of history.told) {
    if (final?.outcome !== 'committed' || final.receipts.effect === null) continue;
    const entry = known.get(final.operationId ?? '');
    if (entry && !entry.receipts.some(({ id }) => id === final.receipts.effect)) found.push({ invariant: 2, what: `${final.operationId} was answered with ${final.receipts.effect}, which is not on record` });
  }
  return found;
};

const has = (entry: LedgerEntry | undefined, kind: string): boolean => entry?.receipts.some((receipt) => receipt.kind === kind) ?? false;

const answered: Check = ({ history }, effectsOf) => [
  ...history.misshapen.map((what): Violation => ({ invariant: 3, what })),
  ...history.told.flatMap((told) => [...steady(told), ...asTheBooks(told, effectsOf(told)), ...neverSentAgain(told)]),
];

/** Once an effect is known, whoever asks afterwards is told the same. */
function steady(told: Told): Violation[] {
  if (told.intent.expects === 'read') return [];
  for (const first of told.said.filter(({ outcome }) => outcome === 'committed')) {
    const other = told.said.find((said) => said.askedAt > first.at && !silent.has(said.disposition) && !follows(said, first));
    if (other) return [{ invariant: 3, what: `told ${brief(first)} and then ${brief(other)}: ${about(told)}` }];
  }
  return [];
}

/** Says nothing about the call. */
const silent = new Set(['unavailable', 'in_progress', 'rate_limited', 'failed']);

/** The same, but for the one thing that was said to be owed (semantics.md section 4, after a 2xx): a result that could not be read comes with its read-back. */
const follows = (later: Said, first: Said): boolean =>
  later.operationId === first.operationId && later.outcome === first.outcome && (later.verified || !first.verified)
  && (later.result === first.result || (first.next === 'verify' && first.result === 'null'));

const noEffect = new Set(['denied', 'rejected', 'budget_exhausted', 'cancelled', 'precondition_failed', 'transition_error', 'version_conflict', 'version_required', 'invalid_arguments', 'invalid_call', 'blocked_tool']);

function asTheBooks(told: Told, effects: Effect[]): Violation[] {
  const { intent, final } = told;
  if (intent.expects === 'read' || intent.expects === 'refusal' || final === null) return [];
  const wrong = (what: string): Violation[] => [{ invariant: 3, what: `${what}, answered ${brief(final)}: ${about(told)}` }];
  if (final.outcome === 'committed') {
    if (effects.length === 0) return wrong('no effect in the books');
    const receipt = effects[0]?.receiptId ?? null;
    return receipt !== null && final.receiptId !== null && !effects.some(({ receiptId }) => receiptId === final.receiptId) ? wrong(`the books say ${receipt}`) : [];
  }
  if (effects.length > 0) return wrong('an effect in the books');
  return noEffect.has(final.disposition) ? excused(told, final) ? [] : wrong('it should have taken effect') : told.step.givesUp ? [] : wrong('that is no end');
}

/** Why a call that was meant to take effect may have none: a person said no, or the budget did. */
function excused({ intent, step }: Told, final: Said): boolean {
  if (final.code === 'APPROVAL_REJECTED') return intent.verdict === 'reject';
  return (final.disposition === 'budget_exhausted' && intent.expects === 'budgeted') || step.givesUp;
}

/** Client libraries send 408 and 5xx again on their own. */
function neverSentAgain(told: Told): Violation[] {
  const loose = told.said.find(({ http, disposition }) => http === 408 || (http >= 500 && !(http === 503 && disposition === 'unavailable') && !(http === 502 && disposition === 'failed')));
  return loose ? [{ invariant: 3, what: `answered ${brief(loose)}: ${about(told)}` }] : [];
}

const refusedMeansNothing: Check = ({ history, books }, effectsOf) => {
  const owners = new Set(history.told.filter(({ intent }) => intent.expects === 'effect' || intent.expects === 'budgeted').map(({ intent }) => meaningOf(intent)));
  const found: Violation[] = [];
  for (const told of history.told) {
    const { intent, said, final } = told;
    if (intent.expects === 'read' && said.some(({ evidenceOfChange }) => evidenceOfChange)) found.push({ invariant: 4, what: `a read says that it changed something: ${about(told)}` });
    if (intent.expects === 'refusal') {
      const executed = said.find(({ outcome, disposition }) => outcome !== null && disposition !== 'rejected');
      if (executed || (!owners.has(meaningOf(intent)) && effectsOf(told).length > 0)) found.push({ invariant: 4, what: `it was to be refused, and was executed: ${about(told)}` });
    }
    const nothingSent = final === null && told.cut === 0 && said.length > 0 && said.every(({ disposition }) => disposition === 'unavailable' || disposition === 'failed');
    if (nothingSent && effectsOf(told).length > 0) found.push({ invariant: 4, what: `every answer said that nothing was sent, and it took effect: ${about(told)}` });
  }
  const meant = new Set(history.told.map(({ intent }) => meaningOf(intent)));
  for (const { order_id, amount } of books.credits) if (!meant.has(`credit ${order_id} ${amount}`)) found.push({ invariant: 4, what: `nobody asked for the credit of ${amount} on ${order_id}` });
  for (const { order_id } of books.cancellations) if (!meant.has(`cancel ${order_id}`)) found.push({ invariant: 4, what: `nobody asked to cancel ${order_id}` });
  for (const { receipt_id } of books.voids) if (!meant.has(`void ${receipt_id}`)) found.push({ invariant: 4, what: `nobody asked to void ${receipt_id}` });
  return found;
};

const apart: Check = ({ history }) => [...history.sightings]
  .filter(([, users]) => users.size > 1)
  .map(([word, users]) => ({ invariant: 5, what: `${word} was shown to ${[...users].join(' and ')}` }));

/** A unit comes back only when it is proven that nothing was sent. */
const unsent = new Set(['failed', 'cancelled']);

const budgeted: Check = ({ history, ledger }, effectsOf) => {
  const sessions = new Map<string, Told[]>();
  for (const told of history.told) if (told.step.budget !== null) sessions.set(told.step.session, [...(sessions.get(told.step.session) ?? []), told]);
  return [...sessions].flatMap(([session, all]) => {
    const limit = all[0]?.step.budget as number;
    const effects = all.reduce((sum, told) => sum + Math.min(1, effectsOf(told).length), 0);
    const started = ledger.filter((entry) => entry.session === session && !unsent.has(entry.state)).length;
    const wanting = all.some(({ final }) => final?.disposition === 'budget_exhausted');
    const found: Violation[] = [];
    if (effects > limit) found.push({ invariant: 6, what: `${effects} effects in ${session}, whose budget is ${limit}` });
    if (started > limit) found.push({ invariant: 6, what: `${started} started in ${session}, whose budget is ${limit}` });
    if (wanting && started < limit) found.push({ invariant: 6, what: `only ${started} of ${limit} started in ${session}, and a call was refused for want of budget` });
    return found;
  });
};

const approved: Check = ({ history }, effectsOf) => history.told.flatMap((told): Violation[] => {
  const { intent, verdicts } = told;
  const wrong = (what: string): Violation => ({ invariant: 7, what: `${what}: ${about(told)}` });
  const needed = intent.expects === 'refusal' ? 0 : approvalsOf(intent);
  const { order_id, amount, currency } = intent.args;
  const askedFor = `Credit ${amount} ${currency} to ${order_id}`;
  const approvers = new Set(verdicts.filter(({ http, decision }) => http === 200 && decision === 'approve').map(({ by }) => by));
  const rejected = verdicts.some(({ http, decision }) => http === 200 && decision === 'reject');
  const sent = effectsOf(told).length > 0;
  return [
    ...verdicts.filter(({ summary }) => summary !== askedFor).map(({ summary }) => wrong(`a person was shown \`${summary}\``)),
    ...(new Set(verdicts.map(({ approval, digest }) => `${approval} ${digest}`)).size > new Set(verdicts.map(({ approval }) => approval)).size ? [wrong('one approval had two digests')] : []),
    ...(sent && needed > 0 && approvers.size < needed && !lostVerdict(verdicts) ? [wrong(`sent with ${approvers.size} of ${needed} approvals (answered ${verdicts.map(({ http }) => http).join(', ')})`)] : []),
    ...(sent && needed > 0 && rejected ? [wrong('sent, though a person had said no')] : []),
  ];
});

function approvalsOf({ tool, args }: Told['intent']): number {
  const amount = tool === 'issue_credit' ? Number(args['amount']) : 0;
  return amount > 40_000 ? 2 : amount > 10_000 ? 1 : 0;
}

const lostVerdict = (verdicts: Told['verdicts']): boolean => verdicts.some((verdict) => isUnheard(verdict) && verdict.decision === 'approve');

const ended: Check = ({ history, ledger, books, deadlineMs }) => [
  // The service keeps its promises save where it is told to act twice, so nothing else is a person's to find out.
  ...history.reviews.filter(({ key }) => [...books.credits, ...books.voids].filter((effect) => effect.key === key).length < 2)
    .map(({ key, reason }): Violation => ({ invariant: 9, what: `${key} came before a person: ${reason}` })),
  ...history.told.flatMap((told): Violation[] => {
    if (told.step.givesUp) return [];
    if (told.final === null) return [{ invariant: 9, what: `no end: ${about(told)}, last told ${told.said.at(-1) ? brief(told.said.at(-1) as Said) : 'nothing'}` }];
    const lateMs = (told.endedAt ?? Infinity) - history.quietAt;
    return lateMs > deadlineMs ? [{ invariant: 9, what: `its end came ${Math.round(lateMs)} ms after everything was quiet: ${about(told)}` }] : [];
  }),
  ...ledger.filter(({ state }) => openStates.has(state)).map((entry): Violation => ({ invariant: 9, what: `${entry.id} is still ${entry.state}: ${storyOf(entry, history, ledger)}` })),
];
