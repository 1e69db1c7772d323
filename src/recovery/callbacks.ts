/**
 * Every event that a service sent by itself is followed to its end, on any replica. While its operation is open it is evidence there, and the
 * operation is looked at now. Once that has settled the event is held against what became of it: what agrees is noted, what contradicts it
 * goes to a person, with a receipt that corrects the one before.
 */
import type { Operation, KeptCallback } from '../gate/ports.js';
import type { Parts } from '../gate/parts.js';
import { read, type Told } from '../gate/callback-evidence.js';
import { leftOf, openRun } from '../gate/open-run.js';
import { contradict, keepRefusal, route } from '../gate/route.js';
import type { Run } from '../gate/run.js';
import { runScope } from '../gate/run.js';
import { announceSettled, dueTopic } from '../gate/topics.js';

/** An event may be here before anything of its operation is, and that for as long as a restored database takes to be caught up with. */
const keepMs = 24 * 3_600_000;
const firstMs = 1_000;
const longestMs = 60_000;

export async function follow(parts: Parts, kept: KeptCallback): Promise<void> {
  const { callbacks } = parts.ledger;
  const operation = kept.event && await callbacks.operation(kept.key);
  const run = operation && await openRun(parts, operation, operation.dossier ?? leftOf(operation));
  if (!kept.event || !operation || !run) {
    if (kept.ageMs < keepMs) return callbacks.defer(kept, backoffMs(kept), operation);
    parts.log.warn({ service: kept.service, event: kept.id }, 'a callback was kept in vain: no operation has come to it');
    parts.metrics.callback('unmatched');
    return callbacks.end(kept, 'unmatched', operation);
  }
  const told = read(run.tool, runScope(run), kept.key, kept.event);
  if (isOpen(operation, told)) {
    await callbacks.hasten(operation, told.proves === 'committed');
    await callbacks.defer(kept, backoffMs(kept), operation);
    parts.locks.announce(operation.id);
    return parts.locks.announce(dueTopic);
  }
  const weighed = await weigh(run, told, operation.dossier === null);
  parts.metrics.callback(weighed);
  await callbacks.end(kept, weighed, operation);
}

function isOpen({ state, clock }: Operation, { proves }: Told): boolean {
  if (state === 'approved') return proves !== 'committed'; // it is about to be sent again, which an effect forbids
  return ['sending', 'accepted', 'unknown'].includes(state) || (state === 'committed' && clock.untilDue !== null);
}

function backoffMs({ tries }: KeptCallback): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(tries, 10)) * (0.75 + Math.random() / 2);
}

/** Against what has settled, or is with a person. */
async function weigh(run: Run, told: Told, wiped: boolean): Promise<'agrees' | 'contradicts' | 'says_nothing'> {
  const { parts, operation } = run;
  // An effect that cannot be ruled out any more is taken for one: a person looks, and nothing is sent.
  const effect = told.proves === 'committed' || (told.proves === 'unclear' && wiped);
  if (effect && operation.state !== 'committed') {
    await contradict(run, told.event, told.proves === 'committed' ? told : null);
    announceSettled(parts, operation);
    return operation.state === 'review' ? 'agrees' : 'contradicts';
  }
  if (told.proves === 'rejected' && operation.state === 'committed') {
    await route(run, { kind: 'review', reason: 'CONTRADICTED', callback: told.event });
    announceSettled(parts, operation);
    return 'contradicts';
  }
  if (told.proves === 'rejected' && operation.state === 'review') await keepRefusal(run, told.event);
  return told.proves === 'committed' || told.proves === 'rejected' ? 'agrees' : 'says_nothing';
}
