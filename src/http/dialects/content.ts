/** An answer as the model is told it: what it can act on, in an order that never changes, as compact JSON. */
import type { Answer, Json } from '../../model.js';

/** Ids of receipts, contracts and calls, the trace and HTTP's own members say nothing to a model. */
const told = [
  'disposition', 'next_action', 'code', 'title', 'detail', 'errors', 'nearest_tools', 'untrusted', 'partial', 'item_counts', 'items', 'retry_with', 'upstream', 'result', 'result_part', 'states', 'legal_actions',
  'verify_with', 'retry_after_ms', 'operation_id',
] as const satisfies (keyof Answer)[];

export function modelContent(answer: Answer): string {
  const content: Record<string, Json> = {};
  for (const member of told) {
    const value = shown(answer, member);
    if (value !== undefined) content[member] = value as Json;
  }
  return JSON.stringify(content);
}

function shown(answer: Answer, member: (typeof told)[number]): unknown {
  switch (member) {
    case 'result':
      return answer.result === null && (answer.result_part !== undefined || answer.status !== undefined) ? undefined : answer.result;
    case 'result_part':
      return answer.result_part && cutText(answer.result_part);
    case 'states':
      return Object.keys(answer.states).length === 0 ? undefined : answer.states;
    case 'legal_actions':
      // where the state is known, none is an answer too
      return answer.legal_actions.length === 0 && Object.keys(answer.states).length === 0 ? undefined : answer.legal_actions;
    case 'operation_id':
      // the only handle on what is not settled, for a user or a person to ask by
      return answer.outcome === null || settled.has(answer.outcome) ? undefined : (answer.operation_id ?? undefined);
    default: {
      const value = answer[member];
      return value === null || (Array.isArray(value) && value.length === 0) ? undefined : value;
    }
  }
}

const settled: ReadonlySet<string> = new Set(['committed', 'rejected', 'not_committed']);

/** A model cannot ask for the rest over HTTP: it is told how much is missing, and the host has `href` in `results`. */
function cutText({ text, bytes, next_offset: next }: NonNullable<Answer['result_part']>): Json {
  const given = next ?? bytes;
  return { text, bytes_given: given, bytes_in_all: bytes, note: `The result is larger than a message may be: its first ${given} of ${bytes} bytes are here.` };
}
