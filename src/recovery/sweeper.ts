/**
 * Finds what nobody looks after and goes on with it: leases that ran out, outcomes that are due to be looked at again. Every replica
 * sweeps; `skip locked` keeps them apart.
 *
 * An expired lease grants the right to reconcile, never to execute: what was `sending` becomes unknown, counted from the moment after
 * which its first owner cannot have sent any more.
 */
import type { KeptCallback, Operation } from '../gate/ports.js';
import type { Parts } from '../gate/parts.js';
import { executeApproved } from '../gate/approved.js';
import { becomeUnknown, pollAccepted, pursueUnknown, sendAsDecided, verifyLater } from '../gate/reconcile.js';
import type { Finding } from '../gate/finding.js';
import { putDown, route } from '../gate/route.js';
import { openRun, processLost } from '../gate/open-run.js';
import type { Run } from '../gate/run.js';
import { announceSettled, dueTopic } from '../gate/topics.js';
import { expired } from '../gate/unsent.js';
import { follow } from './callbacks.js';
import { passOver } from './unreadable.js';

export interface SweeperOptions {
  parts: Parts;
  take(limit: number): Promise<Operation[]>;
  tidy(): Promise<void>;
  escalateReviews(): Promise<{ tenant: string; id: string; operationId: string; tool: string; reason: string }[]>;
  adoptReviews(): Promise<void>;
  /** Erases what has passed its retention; it takes its time, and looks whether it is to stop. */
  retain(stopped: () => boolean): Promise<void>;
  intervalMs: number;
  concurrency: number;
  recovered(state: string): void;
}

/** How long one visit may look before the operation is put down again. */
const visitMs = 1500;
const unforeseenMs = 10_000;
const crowdedMs = 1_000;
/** Of sweeps: what a crash or an older replica left behind is rare. */
const leftoversEvery = 60;
const escalationEvery = 4;

export class Sweeper {
  private readonly working = new Set<Promise<void>>();
  private readonly visits = new Map<string, number>();
  private round: Promise<void> = Promise.resolve();
  private retaining: Promise<void> | undefined;
  private stopped = false;
  private sweeps = 0;

  constructor(private readonly options: SweeperOptions) {}

  start(): void {
    if (this.stopped) return;
    this.round = this.sweep()
      .catch((error: unknown) => this.options.parts.log.warn({ err: error }, 'recovery could not look; it tries again'))
      .then(() => {
        if (!this.stopped) void this.pause().then(() => this.start());
      });
  }

  /** Until the next look, or until somebody says that something is due. */
  private pause(): Promise<void> {
    return this.options.parts.locks.heard(dueTopic, this.options.intervalMs * (0.75 + Math.random() / 2));
  }

  /** A round under way may still take something: it is waited for first. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.options.parts.locks.announce(dueTopic); // ends the pause
    await this.round;
    await Promise.allSettled([...this.working, this.retaining]);
  }

  private async sweep(): Promise<void> {
    const { concurrency, take, tidy, adoptReviews } = this.options;
    if (this.sweeps++ % leftoversEvery === 0) {
      this.retain();
      await Promise.all([tidy(), adoptReviews()]);
    }
    if (this.sweeps % escalationEvery === 0) await this.escalate();
    await this.followCallbacks();
    const room = concurrency - this.working.size;
    if (room <= 0) return;
    for (const operation of await take(room)) {
      const visit = this.visit(operation)
        .catch((error: unknown) => this.options.parts.log.warn({ err: error, operation: operation.id }, 'recovery of an operation failed; it tries again'))
        .finally(() => this.working.delete(visit));
      this.working.add(visit);
    }
  }

  /** Beside the rounds: an hour's work of it must not hold up what somebody waits for. */
  private retain(): void {
    this.retaining ??= this.options.retain(() => this.stopped)
      .catch((error: unknown) => this.options.parts.log.warn({ err: error }, 'what has passed its retention could not be erased; it is tried again'))
      .finally(() => { this.retaining = undefined; });
  }

  /** Before operations are taken, so that what an event makes due is looked at in the same round. */
  private async followCallbacks(): Promise<void> {
    const { parts, concurrency } = this.options;
    const each = (kept: KeptCallback): Promise<void> => follow(parts, kept).catch((error: unknown) =>
      parts.log.warn({ err: error, service: kept.service, event: kept.id }, 'a callback could not be followed; it is looked at again'));
    await Promise.all((await parts.ledger.callbacks.take(concurrency, parts.settings.leaseMs)).map(each));
  }

  /** Once for each: the review stays open, and whoever watches the log or the gauge knows that nobody has come. */
  private async escalate(): Promise<void> {
    for (const { id, operationId: operation, tool, reason } of await this.options.escalateReviews()) {
      this.options.parts.log.error({ review: id, operation, tool, reason }, 'a review is past its deadline and nobody has decided it; it stays open');
    }
  }

  private async visit(operation: Operation): Promise<void> {
    const { parts, recovered } = this.options;
    const release = parts.hold({ tenant: operation.tenant, id: operation.id, fence: operation.fence });
    try {
      const run = await openRun(parts, operation);
      if (!run) return await passOver(parts, operation);
      await this.inTurn(run);
      recovered(run.operation.state);
    } finally {
      release();
      announceSettled(parts, operation);
    }
  }

  /** A service has no more visits at a time than are left for the others: one that does not answer holds up its own operations alone. */
  private async inTurn(run: Run): Promise<void> {
    const { service } = run.tool;
    const visits = this.visits.get(service) ?? 0;
    const left = this.options.concurrency - [...this.visits.values()].reduce((all, some) => all + some, 0);
    if (visits >= left) return void (await putDown(run, crowdedMs * (0.5 + Math.random())));
    this.visits.set(service, visits + 1);
    try {
      await route(run, await resume(run, performance.now() + visitMs));
    } finally {
      this.visits.set(service, (this.visits.get(service) ?? 1) - 1);
    }
  }
}

async function resume(run: Run, until: number): Promise<Finding> {
  const { operation, tool } = run;
  switch (operation.state) {
    case 'sending': {
      operation.attempts = [...operation.attempts, { number: operation.attempt, sent: true, status: null, reason: processLost, outcome: 'unknown', ms: 0 }];
      return becomeUnknown(run, until, Math.max(0, (operation.clock.untilSendBy ?? 0) + tool.upstream.deadlineMs));
    }
    case 'unknown': return pursueUnknown(run, until);
    case 'accepted': return pollAccepted(run, until);
    case 'parked': return expired;
    case 'approved':
      return operation.clock.sinceFirstSent === null ? executeApproved(run, performance.now() + run.parts.settings.patienceMs) : sendAsDecided(run, until);
    case 'committed': return verifyLater(run, until);
    default: return { kind: 'later', dueInMs: unforeseenMs };
  }
}
