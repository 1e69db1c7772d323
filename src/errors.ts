/**
 * Every code that Callgate itself answers with: what happened, why, how to mend it. A leaf.
 *
 * Refusals are values (`Refusal`), failures are exceptions. The `detail` of a refusal is public text: it may name the
 * caller's own input and our codes, never a host, a header, a stack, SQL or another tenant. A contract may put its own
 * `code` in the place of a generic one (`AMOUNT_EXCEEDS_BALANCE` for `PRECONDITION_FAILED`); `type` then still points at
 * the generic page.
 */
import type { BudgetUse, Disposition, FieldError, JsonObject, NextAction } from './model.js';

export interface Problem {
  disposition: Disposition;
  status: number;
  next: NextAction;
  title: string;
  /** For the documentation page: why this happens. */
  why: string;
  /** For the documentation page: what to do, for the person and for the model. */
  mend: string;
}

const problem = (
  disposition: Disposition, status: number, next: NextAction, title: string, why: string, mend: string,
): Problem => ({ disposition, status, next, title, why, mend });

export const problems = {
  MALFORMED_JSON: problem('invalid_call', 400, 'repair', 'The body is not one well-formed JSON object',
    'The text could not be parsed strictly: a syntax error, text after the object, invalid UTF-8, or a cut-off end. Nothing is guessed or completed, because half an argument object can mean something else.',
    'Send one complete JSON object. `detail` names the position of the first error.'),
  DUPLICATE_KEY: problem('invalid_call', 400, 'repair', 'An object names the same key twice',
    'Readers disagree on which of two equal keys wins, so a checker and an executor could read different values from the same bytes.',
    'Keep one of the two members that `errors[0].pointer` names.'),
  NUMBER_NOT_FINITE: problem('invalid_call', 400, 'repair', 'A number cannot be represented',
    'A number such as 1e999 overflows to infinity.', 'Send a number within the range of the argument.'),
  TOO_DEEP: problem('invalid_call', 400, 'repair', 'The body is nested too deeply',
    'Nesting is bounded so that no input can exhaust the parser.', 'Flatten the value; `detail` gives the limit.'),
  BODY_TOO_LARGE: problem('invalid_call', 413, 'repair', 'The body is too large',
    'Bodies are bounded before they are parsed.', 'Send a smaller call; `detail` gives the limit in bytes.'),
  ARGUMENTS_TOO_LARGE: problem('invalid_call', 413, 'repair', 'The arguments are too large',
    'Arguments are bounded before they are validated.', 'Send less in one call; `detail` gives limit and size in bytes.'),
  UNSUPPORTED_MEDIA_TYPE: problem('invalid_call', 400, 'repair', 'The body is not JSON',
    'The service takes `application/json` only.', 'Set `Content-Type: application/json`.'),
  MALFORMED_HTTP: problem('invalid_call', 400, 'repair', 'The request is not well-formed HTTP, or did not arrive in time',
    'The head could not be parsed or is larger than 16 KiB, or the request was cut off or too slow. It was dropped before anything read it.', 'Send one complete HTTP/1.1 request; `detail` names what is wrong.'),
  INVALID_ENVELOPE: problem('invalid_call', 400, 'repair', 'A member of the call is missing or has the wrong type',
    'The members of a call around its arguments are fixed.', '`errors` lists each pointer with what was expected.'),
  KEY_MISMATCH: problem('invalid_call', 400, 'repair', 'Two different idempotency keys were given',
    'The header `Idempotency-Key` and the member `idempotency_key` mean the same and differ here.', 'Send one of them.'),
  CONTRACT_NOT_SERVED: problem('invalid_call', 400, 'repair', 'The pinned contract is not the one being served',
    'The call pins a contract version or digest and the tool now has another.', 'Fetch `/v1/tools` again and propose under the served contract.'),
  OCCURRENCE_NOT_ALLOWED: problem('invalid_call', 400, 'repair', 'This repeat is not allowed',
    '`occurrence` needs a contract with `repeatable: true` and the occurrence before it committed.', 'Leave `occurrence` out, or wait until the one before it is committed.'),
  TURN_CUT: problem('invalid_call', 400, 'repair', 'The turn was cut, so it writes nothing',
    'The provider ended the turn early (`length`, `max_tokens`, `incomplete`). What a cut turn meant to write is not known whole, even where its JSON parses. Its reads run.',
    'Let the model take the turn again with room for all of it.'),
  UNUSABLE_CALL: problem('invalid_call', 400, 'repair', 'This is no call of a tool',
    'A turn held a call of a kind that has no arguments by a schema, such as a custom or freeform tool call.', 'Propose a function call of a published tool.'),
  TOO_MANY_CALLS: problem('invalid_call', 400, 'repair', 'There are too many calls',
    'The calls of one batch, and those that a turn of a model may hold, are bounded. None of them ran.', 'Send several batches; a turn can only be taken again. `detail` gives the limit.'),
  BLOCKED_TOOL: problem('blocked_tool', 404, 'repair', 'There is no such tool for this caller',
    'The name is unknown or not on this credential’s list; which of the two is not said.', 'Use one of `nearest_tools`, or list the tools at `/v1/tools`.'),
  INVALID_ARGUMENTS: problem('invalid_arguments', 422, 'repair', 'The arguments do not satisfy the tool’s schema',
    'Arguments are checked exactly: unknown names are refused instead of dropped, and nothing is coerced unless the contract says so.',
    '`errors` gives a pointer, what was expected and the nearest allowed name for each.'),
  RELATION_FAILED: problem('invalid_arguments', 422, 'repair', 'The arguments contradict each other',
    'A rule of the contract over the arguments alone does not hold.', 'Correct the arguments; `errors` names the rule.'),
  UNSTORABLE_TEXT: problem('invalid_arguments', 422, 'repair', 'A text has a character that cannot be stored',
    'NUL and lone surrogates are refused before anything is sent, because a record of the call could not be kept.', 'Remove the character at `errors[0].pointer`.'),
  INTEGER_PRECISION: problem('invalid_arguments', 422, 'repair', 'An integer is too large to be carried exactly',
    'Beyond ±9,007,199,254,740,991 a JSON number silently becomes another number.', 'Send the value as a string if the schema admits one.'),
  ID_CONFLICT: problem('id_conflict', 422, 'repair', 'This id or key already stands for another call',
    'The same call id or idempotency key came before with other arguments. Nothing of the first call is disclosed.', 'Propose the changed call under a new call id or key.'),
  UNAUTHENTICATED: problem('denied', 401, 'abandon', 'The credential is missing or not valid',
    'No `Authorization: Bearer` header, a key that is unknown, expired or revoked, or a token that is not valid here.', 'Ask the operator for a key, or the issuer for a new token; never retry with the same one.'),
  WRONG_PLANE: problem('denied', 403, 'abandon', 'This credential does not work here',
    'Agents’ credentials work on the agent listener only, all others on the control listener, so that an agent can never approve itself.', 'Use the listener that belongs to the credential’s role.'),
  FORBIDDEN: problem('denied', 403, 'abandon', 'Policy does not allow this use of the tool',
    'The tool is on the caller’s list and no policy permits this call, or one forbids it, or a policy failed to evaluate, which denies.', 'Do not try again unchanged. An operator finds the determining policies in the decision receipt.'),
  PURPOSE_NOT_GRANTED: problem('denied', 403, 'abandon', 'This credential may not act for that purpose',
    'Purposes come from the credential; the body may choose among them only.', 'Leave `purpose` out or use a granted one.'),
  SUBJECT_NOT_GRANTED: problem('denied', 403, 'abandon', 'This credential may not name that subject',
    'The end user comes from the credential; only a credential that was granted it may assert another.', 'Leave `subject` out.'),
  OWN_KEYS_NOT_GRANTED: problem('denied', 403, 'abandon', 'This credential may not bring its own idempotency keys',
    'A key replaces the gateway’s identity of the operation, so it is taken only from credentials that were granted `own_keys`.', 'Leave the key out; equal calls of one intent are recognised without it.'),
  NOT_FOUND: problem('denied', 404, 'ask', 'There is no such resource for this caller',
    'It does not exist or the caller may not see it; which of the two is not said.', 'Ask the user for the right identifier.'),
  OPERATION_NOT_FOUND: problem('denied', 404, 'abandon', 'There is no such operation for this caller',
    'Operations are visible to the tenant, principal and subject that proposed them.', 'Check the operation id.'),
  RESULT_EXPIRED: problem('denied', 404, 'abandon', 'The result is not kept any more',
    'Results are kept for `retention.payloads`; the outcome and the identity of an operation are kept for ever.', 'What was done stays done. Read what you need from the service again.'),
  ROUTE_NOT_FOUND: problem('invalid_call', 404, 'repair', 'There is no such path',
    'The path or the method is not part of the API on this listener.', 'See `/docs` and `/openapi.json` on the control listener.'),
  OBSERVATION_FAILED: problem('failed', 502, 'retry', 'The current state could not be read',
    'A precondition needs fresh state from its authoritative source, and that read failed. Nothing was written.', 'Try again with the same ids.'),
  TRANSITION_ERROR: problem('transition_error', 409, 'refresh', 'The action is not legal in the current state',
    'The transition table of the entity has no such action in this state.', 'Choose one of `legal_actions`, or read the entity again.'),
  PRECONDITION_FAILED: problem('precondition_failed', 409, 'refresh', 'A precondition does not hold',
    'A rule of the contract over freshly observed state is false.', '`errors` names the rule; read the state again before proposing another call.'),
  PREDICATE_ERROR: problem('precondition_failed', 409, 'escalate', 'A precondition could not be evaluated',
    'An expression of the contract failed over the observed state, for instance because an optional member was absent. It is never taken as true.', 'Tell the owner of the service; `errors` names the rule.'),
  EARLIER_RESULT_MISSING: problem('precondition_failed', 409, 'refresh', 'A call that this one rests on has not been made',
    'The contract takes a value from the last committed result of another tool in this session, on the same resource, and there is none. The value is never taken from arguments.',
    'Make the call that `detail` names, if it names one, and then this one again.'),
  EARLIER_RESULT_EXPIRED: problem('precondition_failed', 409, 'escalate', 'A result that this call rests on is no longer kept',
    'The contract takes a value from an earlier result of this session, which has passed its retention. That it happened still stands, so it is not to be repeated for its value.',
    'Hand the request to a person, who can find the value at the service.'),
  ITEMS_ALREADY_DONE: problem('precondition_failed', 409, 'repair', 'Some items of the list are done already',
    'An earlier call of the same caller for the same intent did these items. A second call about them would do them twice, so nothing of it was sent.',
    'Propose `retry_with`, which names the items that are left; where it is absent nothing is left to do. `errors` names the items that are done.'),
  VERSION_CONFLICT: problem('version_conflict', 412, 'refresh', 'The resource has changed since it was read',
    'The version that the proposal was made on is not the present one, so the proposal may rest on stale facts.', 'Read the resource again, then decide anew.'),
  VERSION_REQUIRED: problem('version_required', 428, 'refresh', 'A version is required',
    'The contract asks that the caller has read the resource before changing it.', 'Read the resource, or send `expected_version`.'),
  PREDECESSOR_FAILED: problem('precondition_failed', 409, 'refresh', 'A call before it in the same turn did not take effect',
    'Another write of the turn, on the same entity and before this one, was refused or had no effect, so this one was not sent: it was proposed on the assumption that the other succeeds.',
    'Read the entity, then propose again what is still wanted.'),
  PREDECESSOR_UNKNOWN: problem('precondition_failed', 409, 'wait', 'The outcome of a call before it in the same turn is not known yet',
    'Another write of the turn, on the same entity and before this one, has not settled, so this one was not sent.',
    'Wait for the outcome of the other; then send the same call with the same ids again.'),
  APPROVAL_REJECTED: problem('denied', 403, 'ask', 'The approval was refused',
    'A person looked at exactly this call and said no. It was not sent.', 'Tell the user, and ask what they want instead. The same call may be proposed anew.'),
  APPROVAL_REVOKED: problem('denied', 403, 'ask', 'The approval was taken back',
    'A person took the approval back before the call was sent.', 'Tell the user, and ask what they want instead. The same call may be proposed anew.'),
  APPROVAL_EXPIRED: problem('denied', 403, 'ask', 'Nobody approved it in time',
    'An approval is open until its deadline, and nobody decided until then. The call was not sent.', 'Ask the user whether it is still wanted; the same call may be proposed anew.'),
  STALE_APPROVAL: problem('precondition_failed', 409, 'refresh', 'The world is not what was approved any more',
    'Before an approved call is sent everything is asked again: contract, policy, state, version, preconditions. One of them has changed since the proposal, so the approval does not hold. It was not sent.',
    'Read the state again, then decide anew; a new proposal needs a new approval.'),
  APPROVAL_NOT_FOUND: problem('denied', 404, 'abandon', 'There is no such approval',
    'No approval of this tenant has that id.', 'List the open ones at `/v1/approvals`.'),
  APPROVAL_CLOSED: problem('denied', 410, 'refresh', 'It is too late to decide on this approval',
    'Its deadline has passed by the clock of the database, or its call ended otherwise. The call was not sent.', 'Nothing is left to decide. If the call is still wanted it has to be proposed anew.'),
  NOT_AN_APPROVER: problem('denied', 403, 'escalate', 'This approval needs somebody with another role',
    'The contract says who approves: an application for its users, or a reviewer.', 'Hand it to somebody with that role.'),
  BUDGET_EXHAUSTED: problem('budget_exhausted', 429, 'abandon', 'The budget is used up',
    'Executions, turns, and refused proposals of one tool for one intent are counted over all replicas, and none of one kind is left. Nothing was sent.',
    '`budget` says which one, its limit and use. Waiting does not refill a session: give up, or hand it to a person. The application can raise the budgets of a session that it created.'),
  INVALID_SESSION: problem('invalid_call', 400, 'repair', 'The session cannot be set like this',
    'A session charges its topmost parent, which must exist and is settled when the session is created; budgets belong to that one.', '`errors` says which member is wrong and why.'),
  IN_PROGRESS: problem('in_progress', 409, 'wait', 'A call on this resource is still running',
    'The same operation, or another one on the same resource, has not settled yet.', 'Send the same call with the same ids again after `Retry-After`.'),
  NOT_BEGUN: problem('in_progress', 409, 'wait', 'The call was not begun in time',
    'The calls of a turn share the caller’s patience, and it ended while those before this one ran. Nothing was sent for it.', 'Send the turn again with the same ids.'),
  UNAVAILABLE: problem('unavailable', 503, 'retry', 'The ledger could not record the call',
    'Nothing is sent unless its intent is durable. Nothing was sent.', 'Try again with the same ids after `Retry-After`.'),
  ISSUER_UNAVAILABLE: problem('unavailable', 503, 'retry', 'The credential cannot be checked just now',
    'The keys of the token’s issuer could not be fetched, and none that are recent enough are at hand. Nothing was sent.', 'Try again with the same ids after `Retry-After`.'),
  OVERLOADED: problem('unavailable', 503, 'retry', 'This replica has as much to do as it takes',
    'As many calls as it admits at a time are under way or wait in line. Nothing was sent.', 'Try again with the same ids after `Retry-After`; another replica may answer sooner.'),
  DRAINING: problem('unavailable', 503, 'retry', 'This replica is shutting down',
    'It takes no new calls. Nothing was sent.', 'Try again with the same ids; another replica answers.'),
  UPSTREAM_REJECTED: problem('rejected', 422, 'abandon', 'The service refused the call',
    'The domain service answered with a refusal; no effect took place.', 'Do not repeat it unchanged.'),
  UPSTREAM_VERSION_CONFLICT: problem('version_conflict', 412, 'refresh', 'The resource changed while the call was made',
    'The service refused a conditional write because its version had moved; no effect took place.', 'Read the resource again, then decide anew.'),
  CALLBACK_NOT_VERIFIED: problem('denied', 401, 'abandon', 'The callback does not come from that service',
    'A callback is believed for its signature alone (Standard Webhooks): `webhook-signature` over `webhook-id`, `webhook-timestamp` and the body, by a secret of the service, not older than a few minutes. Which services there are is not said.',
    'Sign with the secret that `upstream.callbacks` of the contract names, and each delivery with its own time.'),
  CALLBACK_UNAVAILABLE: problem('unavailable', 503, 'retry', 'The callback cannot be taken just now',
    'An event is acknowledged once it is durable. The ledger is away, or the secret of the service is not set on this gateway, which its log says.', 'Send the same event again after `Retry-After`.'),
  NOT_COMMITTED: problem('rejected', 422, 'retry', 'Proven not to have happened',
    'The call was sent, and evidence from the service shows that it had no effect; the attempts of this proposal are used up.', 'The same call with the same ids may be sent again.'),
  RATE_LIMITED: problem('rate_limited', 429, 'retry', 'The service limits the rate of calls',
    'The domain service asked for a pause, which every caller of it shares. No effect took place.', 'Send the same call with the same ids after `Retry-After`.'),
  CALLER_RATE_LIMITED: problem('rate_limited', 429, 'retry', 'The caller asks too often',
    'A principal, and all principals of a tenant together, may make so many requests a second (`callers` in the configuration). Nothing was read of this one.', 'Send the same call with the same ids after `Retry-After`.'),
  CALLER_BUSY: problem('rate_limited', 429, 'retry', 'The caller has too much under way',
    'A principal, and all principals of a tenant together, may have so many requests under way (`callers` in the configuration). Nothing was read of this one.', 'Wait for an answer, then send the same call with the same ids.'),
  UPSTREAM_BUSY: problem('rate_limited', 429, 'retry', 'The service is busy',
    'As many calls as the contract of the service allows at a time were under way, or as many as may wait for a place were waiting, for the whole patience of this call. Nothing was sent.',
    'Send the same call with the same ids after `Retry-After`.'),
  UPSTREAM_SUSPENDED: problem('failed', 502, 'retry', 'The service is failing and is left alone for a moment',
    'Several exchanges with the service in a row failed, so new calls are refused at once until a probe shows that it works again. Nothing was sent.',
    'Send the same call with the same ids after `Retry-After`.'),
  UPSTREAM_UNREACHABLE: problem('failed', 502, 'retry', 'The service could not be reached',
    'Not one byte of the write left this gateway, in any attempt.', 'Try again with the same ids.'),
  READ_FAILED: problem('failed', 502, 'retry', 'The read failed',
    'The service did not give a usable answer within the attempts of this call. A read changes nothing.', 'Try again with the same ids.'),
  CANCELLED: problem('cancelled', 409, 'abandon', 'The call was cancelled before it was sent',
    'Somebody cancelled it while nothing had been sent.', 'Propose it anew if it is still wanted.'),
  TOO_LATE: problem('invalid_call', 409, 'wait', 'It is too late to cancel',
    'The call may have reached the service already.', 'Wait for its outcome; a committed effect can be undone only by an operation of its own.'),
  ABANDONED: problem('cancelled', 409, 'abandon', 'The call was given up by a person',
    'Its outcome could not be settled by evidence of the service; a person found that nothing had happened and gave it up.', 'Do not try again; tell the user. A new request of the user may be proposed anew.'),
  REVIEW_NOT_FOUND: problem('denied', 404, 'abandon', 'There is no such review',
    'No review of this tenant has that id.', 'List the open ones at `/v1/reviews`.'),
  ALREADY_DECIDED: problem('precondition_failed', 409, 'abandon', 'It is decided already',
    'A decision stands once; two people may have looked at the same time.', 'Read what was decided, by whom and when; `detail` says it in short.'),
  EVIDENCE_CHANGED: problem('precondition_failed', 409, 'refresh', 'The evidence is not what the decision was made on',
    '`expected_digest` names the evidence that was looked at. Something was observed since, or the digest is of something else. Nothing was decided.', 'Read it again, and decide on its new `digest`.'),
  DECISION_NOT_POSSIBLE: problem('precondition_failed', 409, 'ask', 'The evidence does not allow this decision',
    'An effect that was seen cannot be decided away, and nothing is sent again where that could be a second effect. Nothing was decided.', 'Choose a decision that is `possible`; `detail` says what stands against this one.'),
  DISTINCT_PERSON_REQUIRED: problem('denied', 403, 'escalate', 'Somebody else has to decide',
    'Whoever proposed a call does not approve it, nobody approves twice, and whoever proposed, approved or is the subject of a call does not decide what became of it.', 'Hand it to another person.'),
  INTERNAL: problem('unavailable', 500, 'retry', 'The gateway failed before anything was sent',
    'An error of ours; the log has it under `incident_id`. Nothing was sent.', 'Try again with the same ids; tell the operator the incident id.'),
} as const satisfies Record<string, Problem>;

export type ProblemCode = keyof typeof problems;

/** A refusal: a value that ends the path of a call. */
export interface Refusal {
  refused: ProblemCode;
  /** What happened, in one or two public sentences. */
  detail: string;
  errors?: FieldError[];
  /** The contract's own code and next action, where it declares them. */
  code?: string;
  next?: NextAction;
  legalActions?: string[];
  nearestTools?: string[];
  states?: Record<string, string>;
  retryAfterMs?: number;
  /** Members of the upstream's error that the contract lets be told, and whether they may carry injected text. */
  upstream?: JsonObject;
  untrusted?: true;
  /** Of a budget that is used up. */
  budget?: BudgetUse;
  /** The call about the items alone that are left. */
  retryWith?: { tool: string; arguments: JsonObject };
}

export function refuse(refused: ProblemCode, detail: string, more: Omit<Refusal, 'refused' | 'detail'> = {}): Refusal {
  return { refused, detail, ...more };
}

export function isRefusal(value: object): value is Refusal {
  return 'refused' in value;
}

/** A credential can be neither accepted nor refused now: the keys of its issuer are not to be had. Answered 503. */
export class CredentialsUnavailable extends Error {
  constructor() {
    super('the keys of the issuer are not to be had');
    this.name = 'CredentialsUnavailable';
  }
}

/** The ledger could not make something durable; before dispatch it is answered 503, afterwards never. */
export class LedgerUnavailable extends Error {
  /** @param ailment for the operator's log: what is wrong and how it is mended. */
  constructor(cause: unknown, ailment?: string) {
    super(`the ledger is unavailable${ailment === undefined ? '' : `: ${ailment}`}`, { cause });
    this.name = 'LedgerUnavailable';
  }
}
