/** What is known of a call so far, for whatever answer it will get: a refusal in the second stage knows less than an effect. */
import type { ToolPlan } from '../contract/plan.js';
import type { StageName, StepName, TraceEntry } from '../model.js';

export class Progress {
  callId: string | null = null;
  sessionId = '';
  intentId = '';
  principal = '';
  /** The name as proposed, which may be no tool at all. */
  toolName: string | null = null;
  tool: ToolPlan | null = null;
  repaired: string[] = [];
  decisionReceipt: string | null = null;
  readonly trace: TraceEntry[] = [];
  private since = performance.now();

  constructor(private readonly timed: (stage: StageName, step: StepName, seconds: number) => void) {}

  /** Ends the step that has been running; of the steps of a stage, and of one that is walked through twice, the trace has one entry, their times added. */
  pass(stage: StageName, step: StepName, verdict: TraceEntry['verdict'] = 'pass'): void {
    const now = performance.now();
    const ms = now - this.since;
    this.since = now;
    this.timed(stage, step, ms / 1000);
    const before = this.trace.find((entry) => entry.stage === stage);
    if (before) {
      before.ms = round(before.ms + ms);
      before.verdict = verdict;
    } else {
      this.trace.push({ stage, verdict, ms: round(ms) });
    }
  }
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100;
}
