/**
 * Answers as types: a union over `disposition`, of which each member has the next actions that it can have. A gateway that is newer
 * than this client may say words that are not listed; they arrive as they are, so a `switch` keeps a `default` branch.
 */
import type { Answer as Wire, Disposition, FieldError, Json, JsonObject, NextAction } from '../model.js';

export type { Disposition, FieldError, Json, JsonObject, NextAction };

/** What may follow each disposition. Where the contract has a say, it may be anything. */
interface Follows {
  executed: 'continue' | 'verify';
  replayed: 'continue' | 'verify';
  pending: 'wait';
  unknown: 'wait';
  approval_required: 'ask' | 'escalate';
  review: 'escalate';
  in_progress: 'wait';
  invalid_call: NextAction;
  blocked_tool: NextAction;
  invalid_arguments: NextAction;
  id_conflict: NextAction;
  denied: NextAction;
  precondition_failed: NextAction;
  transition_error: NextAction;
  version_required: NextAction;
  version_conflict: NextAction;
  budget_exhausted: NextAction;
  rejected: NextAction;
  rate_limited: NextAction;
  failed: NextAction;
  unavailable: NextAction;
  cancelled: NextAction;
}

type Said<D extends Disposition> = Omit<Wire, 'disposition' | 'next_action' | 'result'> & { disposition: D; next_action: Follows[D] };

/** The effect took place, or the read was made. `result` is what the tool's contract admits; null also where it has expired or is too large for an answer (`result()` fetches it whole). */
type Done<D extends Disposition, Result> = Said<D> & { call_id: string; operation_id: string; tool: string; result: Result | null };

/** It may have happened, or will: `operation()` tells later. */
type Open<D extends Disposition> = Said<D> & { call_id: string; operation_id: string; tool: string; result: null };

/** Nothing happened by this call. A problem document (RFC 9457). */
type Refused<D extends Disposition> = Said<D> & {
  result: null; type: string; title: string; status: number; detail: string; code: string; errors: FieldError[];
};

type DoneWord = 'executed' | 'replayed';
type OpenWord = 'pending' | 'unknown' | 'approval_required' | 'review';

type AnswerTo<D extends Disposition, Result> = D extends DoneWord ? Done<D, Result> : D extends OpenWord ? Open<D> : Refused<D>;

/** The answer to one call. @typeParam Result what the tool's contract says of its result. */
export type Answer<Result = Json> = { [D in Disposition]: AnswerTo<D, Result> }[Disposition];

/** One answer for each call of the turn, in the order in which the calls stand in it. */
export interface Batch { results: Answer[] }

/** Calls of tools that the host has to run itself: Callgate has no answer to them. */
interface Unanswered { unanswered?: { type: string; id: string | null }[] }

/** `messages` are to be appended to the conversation as they are; none: the model called no tool. */
export interface OpenaiChatTurn extends Batch { messages: { role: 'tool'; tool_call_id: string; content: string }[] }

/** `input` is to be appended to the input of the next request as it is; none: the model called no tool. */
export interface OpenaiResponsesTurn extends Batch, Unanswered {
  input: { type: 'function_call_output' | 'custom_tool_call_output'; call_id: string; output: string }[];
}

/** `message` is to be appended to the conversation as it is; null: the model called no tool. */
export interface AnthropicTurn extends Batch {
  message: { role: 'user'; content: { type: 'tool_result'; tool_use_id: string; content: string; is_error?: boolean; toolset_name?: string }[] } | null;
}

export interface SessionContext {
  session_id: string;
  /** For the system prompt: what the session was told, what may be done now, what is left of its budgets. */
  text: string;
  entities: { entity: string; state: string | null; version: string | null; observed_at: string; legal_actions: string[] }[];
  budgets: JsonObject;
}

export type Dialect = 'openai-chat' | 'openai-responses' | 'anthropic' | 'gemini' | 'mcp';

/** A tool in Callgate's own shape. */
export interface Tool {
  name: string; version: string; digest: string; description: string; effect: 'none' | 'write' | 'irreversible';
  input_schema: JsonObject; output_schema: JsonObject;
}

/** @typeParam ProviderTool the type of a tool in the provider's own package. */
export interface ProjectedTools<ProviderTool = JsonObject> {
  dialect: Dialect;
  /** To be put into a request of the provider as they are. */
  tools: ProviderTool[];
  /** What the provider cannot carry and the gateway still enforces. */
  projection: JsonObject;
}

export function isAnswer(document: object): document is Answer {
  return 'disposition' in document && typeof document.disposition === 'string' && 'next_action' in document && typeof document.next_action === 'string';
}
