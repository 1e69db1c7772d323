/**
 * Finds what nobody looks after and goes on with it: leases that ran out, outcomes that are due to be looked at again. Every replica
 * sweeps; `skip locked` keeps them apart.
 *
 * An expired lease grants the right to reconcile, never to execute: what was `sending` becomes unknown, counted from the moment after
 * which its first owner cannot have sent any more.
 */
import type { Operation } from '../gate/ports.js';
import type { Parts } from '../gate/parts.js';
import { becomeUnknown, pollAccepted, pursueUnknown, verifyLater } from '../gate/reconcile.js';
import type { Finding } from '../gate/finding.js';
import { route } from '../gate/route.js';
import type { Run } from '../gate/run.js';
import { guardTopic } from '../gate/turn.js';

export interface SweeperOptions {
  parts: Parts;
  take(limit: number): Promise<Operation[]>;
  removeOrphanGuards(): Promise<void>;
  intervalMs: number;
  concurrency: number;
  recovered(state: string): void;
}

/** How long one visit may look before the operation is put down again. */
const visitMs = 1500;
const noContractMs = 10_000;
const orphansEvery = 60;

export class Sweeper {
  private readonly working = new Set<Promise<void>>();
  private timer: NodeJS.Timeout | undefined;
  private round: Promise<void> = Promise.resolve();
  private stopped = false;
  private sweeps = 0;

  constructor(private readonly options: SweeperOptions) {}

  start(): void {
    this.round = this.sweep()
      .catch((error: unknown) => this.options.parts.log.warn({ err: error }, 'recovery could not look; it tries again'))
      .then(() => {
        if (!this.stopped) this.timer = setTimeout(() => this.start(), this.options.intervalMs * (0.75 + Math.random() / 2));
      });
  }

  /** A round under way may still take something: it is waited for first. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.round;
    await Promise.allSettled(this.working);
  }

  private async sweep(): Promise<void> {
    const { concurrency, take, removeOrphanGuards } = this.options;
    if (this.sweeps++ % orphansEvery === 0) await removeOrphanGuards();
    const room = concurrency - this.working.size;
    if (room <= 0) return;
    for (const operation of await take(room)) {
      const visit = this.visit(operation)
        .catch((error: unknown) => this.options.parts.log.warn({ err: error, operation: operation.id }, 'recovery of an operation failed; it tries again'))
        .finally(() => this.working.delete(visit));
      this.working.add(visit);
    }
  }

  private async visit(operation: Operation): Promise<void> {
    const { parts, recovered } = this.options;
    const release = parts.hold({ tenant: operation.tenant, id: operation.id, fence: operation.fence });
    try {
      const run = await openRun(parts, operation);
      if (!run) return void (await giveUp(parts, operation));
      await route(run, await resume(run, performance.now() + visitMs));
      recovered(run.operation.state);
    } finally {
      release();
      parts.locks.announce(operation.id);
      const { baseline } = operation.dossier ?? {};
      if (baseline?.entity) parts.locks.announce(guardTopic(operation.tenant, baseline.entity));
    }
  }
}

async function openRun(parts: Parts, operation: Operation): Promise<Run | null> {
  const catalogue = await parts.catalogueOf(operation.catalogueDigest);
  const tool = catalogue?.tools.get(operation.tool);
  if (!tool || !operation.dossier) return null;
  const now = performance.now();
  const { clock } = operation;
  return {
    parts, tool, operation, dossier: operation.dossier,
    absentFrom: clock.untilAbsent === null ? null : now + clock.untilAbsent,
    firstSentAt: now - (clock.sinceFirstSent ?? clock.sinceCreated),
    reconcileBy: now + (clock.untilReconcileBy ?? parts.settings.reconcileDeadlineMs),
    takenOver: operation.state === 'sending' || operation.attempts.some(({ reason }) => reason === processLost),
    witnessed: false,
    legalActions: () => [],
  };
}

const processLost = 'process_lost';

async function resume(run: Run, until: number): Promise<Finding> {
  const { operation, tool } = run;
  switch (operation.state) {
    case 'sending': {
      operation.attempts = [...operation.attempts, { number: operation.attempt, sent: true, status: null, reason: processLost, outcome: 'unknown', ms: 0 }];
      return becomeUnknown(run, until, Math.max(0, (operation.clock.untilSendBy ?? 0) + tool.upstream.deadlineMs));
    }
    case 'unknown': return pursueUnknown(run, until);
    case 'accepted': return pollAccepted(run, until);
    case 'committed': return verifyLater(run, until);
    default: return { kind: 'later', dueInMs: noContractMs };
  }
}

/** Its contract or its request is not at hand: nothing may be guessed, and it stays due. */
async function giveUp(parts: Parts, operation: Operation): Promise<void> {
  parts.log.error({ operation: operation.id, tool: operation.tool, catalogue: operation.catalogueDigest }, 'an open operation has no contract here, or its sealed request does not open; it stays open');
  await parts.ledger.transition({
    tenant: operation.tenant, operationId: operation.id, writeId: crypto.randomUUID(), from: [operation.state], fence: operation.fence, to: operation.state,
    release: true, dueInMs: noContractMs,
  });
}
