/** `callgate/client`: proposes calls to a Callgate and finds out what became of them. Runs wherever there is `fetch`. */
export type {
  Answer, AnthropicTurn, Batch, Dialect, Disposition, FieldError, Json, JsonObject, NextAction, OpenaiChatTurn, OpenaiResponsesTurn, ProjectedTools, SessionContext, Tool,
} from './answer.js';
export { Callgate } from './callgate.js';
export { CallgateError, type CallgateErrorCode } from './callgate-error.js';
export type { CallgateOptions, CallOptions } from './options.js';
export type { Envelope, Proposal, Turn } from './proposal.js';
