/** What a run knows of one operation, in one line: whoever reads a violation has the output of CI and nothing else. */
import type { History, LedgerEntry, Said, Told } from './history.js';
import { customers } from './orders.js';

/** By what was meant: order and amount, order, or receipt. Never by an id of the gateway's. */
export function meaningOf({ tool, args }: Pick<LedgerEntry, 'tool' | 'args'>): string {
  if (tool === 'issue_credit') return `credit ${args['order_id']} ${args['amount']}`;
  if (tool === 'cancel_order') return `cancel ${args['order_id']}`;
  return tool === 'void_credit' ? `void ${args['receipt_id']}` : '';
}

export const about = ({ intent, step }: Told): string => `${step.kind} ${intent.id} (${intent.tool} ${JSON.stringify(intent.args)})`;
export const brief = ({ http, disposition, outcome, operationId, code, result }: Said): string => [http, disposition, outcome, code, operationId, result.slice(0, 80)].join(' ');

/** The intent that the operation was made for. */
export function toldOf(entry: Pick<LedgerEntry, 'tool' | 'args' | 'subject'>, { told }: History): Told | undefined {
  return told.find(({ intent }) => meaningOf(intent) === meaningOf(entry) && customers[intent.customer].customer_id === entry.subject);
}

export function storyOf(entry: LedgerEntry, history: History, ledger: readonly LedgerEntry[]): string {
  const of = (one: LedgerEntry): string => `${one.id} generation ${one.generation} ${one.state}${one.reason === null ? '' : ` ${one.reason}`} since ${one.createdAt} (${one.receipts.map(({ kind, disposition }) => `${kind} ${disposition}`).join(', ')})`;
  const alike = ledger.filter((one) => meaningOf(one) === meaningOf(entry) && one.subject === entry.subject).sort((a, b) => a.generation - b.generation);
  const told = toldOf(entry, history);
  return [
    `session ${entry.session}`, ...alike.map(of),
    ...(told ? [`${about(told)} of step ${told.step.n}${told.step.givesUp ? ', whose caller gives up' : ''}`, ...heardOf(told, history.quietAt)] : ['nobody meant it']),
  ].join('; ');
}

function heardOf({ said, cut, verdicts, intent, final }: Told, quietAt: number): string[] {
  const began = said[0]?.askedAt ?? 0;
  return [
    `quiet at ${Math.round(quietAt - began)} ms`, `its callers were ${answersOf(said, began).join(', then ') || 'told nothing'}, and cut off ${cut} times`, `its end was ${final ? brief(final) : 'not told'}`,
    `the person says ${intent.verdict}: ${verdicts.map(({ approval, by, decision, http }) => `${approval} ${by} ${decision} ${http}`).join(', ') || 'was not asked'}`,
  ];
}

/** The same answer over and over is told once, with the times of the first and the last. */
function answersOf(said: readonly Said[], began: number): string[] {
  const answers: { first: Said; last: Said; times: number }[] = [];
  for (const one of said) {
    const before = answers.at(-1);
    if (before && brief(before.first) === brief(one)) Object.assign(before, { last: one, times: before.times + 1 });
    else answers.push({ first: one, last: one, times: 1 });
  }
  const ms = (at: number): number => Math.round(at - began);
  return answers.map(({ first, last, times }) =>
    `asked at ${ms(first.askedAt)} and told at ${ms(first.at)} ms ${brief(first)}${times > 1 ? ` (${times} times until ${ms(last.at)} ms)` : ''}`);
}
