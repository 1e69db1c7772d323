/** Faults that a test arms by `POST /_faults`: which there are, and the queue of those still to come. */
import { Malformed } from './answer.js';

const readTools = ['get_order', 'quote_credit', 'get_credit_receipt', 'convert_temperature'] as const;
const writeTools = ['issue_credit', 'void_credit', 'cancel_order'] as const;
export type Tool = (typeof readTools)[number] | (typeof writeTools)[number];

const anyToolKinds = [
  'drop_before_commit', '503_not_started', '429', 'commit_then_drop', 'commit_then_500', 'delay_commit', 'slow_reply',
  'truncate_body', 'bad_json',
] as const;
/** A read has no effect that could be accepted for later or happen twice. */
const writeOnlyKinds = ['accept_202', 'double_effect'] as const;
export type FaultKind = (typeof anyToolKinds)[number] | (typeof writeOnlyKinds)[number];

const kindsWithMs: readonly FaultKind[] = ['delay_commit', 'slow_reply', 'accept_202'];
const longestMs = 2 ** 31 - 1;

export interface Fault { readonly kind: FaultKind; readonly ms: number; readonly retryAfterSeconds: number }

export function isWrite(tool: Tool): boolean {
  return includes(writeTools, tool);
}

export class FaultQueue {
  readonly #armed = new Map<Tool, { fault: Fault; left: number }[]>();
  readonly #met = new Map<FaultKind, number>();

  /**
   * @param order `{tool, kind, times = 1, ms = 1000, retry_after = 1}`; members that the kind does not use are ignored.
   * @throws Malformed for an unknown tool or kind, or a member that it uses and that is out of range.
   */
  arm(order: Record<string, unknown>): void {
    const tool = oneOf('tool', [...readTools, ...writeTools], order.tool);
    const kind = oneOf('kind', [...anyToolKinds, ...writeOnlyKinds], order.kind);
    if (includes(writeOnlyKinds, kind) && !isWrite(tool)) {
      throw new Malformed(`\`${kind}\` needs an effect and \`${tool}\` only reads; arm it for one of ${writeTools.join(', ')}`);
    }
    const left = integer('times', order.times ?? 1, 1);
    const ms = kindsWithMs.includes(kind) ? integer('ms', order.ms ?? 1_000, 0) : 0;
    const retryAfterSeconds = kind === '429' ? integer('retry_after', order.retry_after ?? 1, 0) : 0;
    const queue = this.#armed.get(tool) ?? [];
    queue.push({ fault: { kind, ms, retryAfterSeconds }, left });
    this.#armed.set(tool, queue);
  }

  /** Uses up one turn of the oldest fault that is armed for this tool. */
  take(tool: Tool): Fault | null {
    const queue = this.#armed.get(tool);
    const head = queue?.[0];
    if (queue === undefined || head === undefined) return null;
    head.left -= 1;
    if (head.left === 0) queue.shift();
    this.#met.set(head.fault.kind, (this.#met.get(head.fault.kind) ?? 0) + 1);
    return head.fault;
  }

  /** How often each kind was met by a request. */
  met(): Record<string, number> {
    return Object.fromEntries(this.#met);
  }
}

function includes<T extends string>(known: readonly T[], value: unknown): value is T {
  return (known as readonly unknown[]).includes(value);
}

function oneOf<T extends string>(member: string, known: readonly T[], value: unknown): T {
  if (includes(known, value)) return value;
  throw new Malformed(`\`${member}\` is \`${JSON.stringify(value) ?? 'absent'}\`; it must be one of ${known.join(', ')}`);
}

function integer(member: string, value: unknown, least: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= longestMs) return value;
  throw new Malformed(`\`${member}\` is \`${JSON.stringify(value)}\`; it must be an integer from ${least} to ${longestMs}`);
}
