/** Carries out what was asked to be cancelled at another replica, of what waits in this one. Looks only while something waits. */
import { carryOut } from '../gate/cancel-waiting.js';
import type { Parts } from '../gate/parts.js';
import { cancelTopic } from '../gate/topics.js';

const everyMs = 250;

export class CancelRequestsReader {
  private stopped = false;

  constructor(private readonly parts: Parts) {}

  async run(): Promise<void> {
    const { locks, waiting, ledger, log } = this.parts;
    while (!this.stopped) {
      await locks.heard(cancelTopic, everyMs);
      if (this.stopped || waiting.size === 0) continue;
      await ledger.cancelRequests.list()
        .then((requests) => Promise.all(requests.map((request) => carryOut(this.parts, request))))
        .catch((error: unknown) => log.warn({ err: error }, 'what is to be cancelled could not be read; it is looked at again'));
    }
  }

  stop(): void {
    this.stopped = true;
    this.parts.locks.announce(cancelTopic);
  }
}
