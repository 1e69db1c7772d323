/** The client: one verb for each path of the agent listener. */
import {
  type AnthropicTurn, type Answer, type Batch, type Dialect, isAnswer, type Json, type JsonObject, type OpenaiChatTurn, type OpenaiResponsesTurn,
  type ProjectedTools, type SessionContext, type Tool,
} from './answer.js';
import { CallgateError, type Ids, noIds } from './callgate-error.js';
import type { Ask, Link } from './exchange.js';
import { type CallgateOptions, type CallOptions, checkedNumber, limitsOf, linkOf } from './options.js';
import type { Limits } from './patience.js';
import { type Envelope, type Proposal, type Sealed, sealProposal, sealResponse, sealTurn, type Turn } from './proposal.js';
import { callQuestion, operationPath, operationQuestion, plainQuestion, proposing, turnQuestion } from './questions.js';
import { type Question, settle } from './settle.js';

const defaultWaitMs = 30_000;

export class Callgate {
  private readonly link: Link;
  private readonly limits: Limits;

  /** A model's turn, as the response object of its provider, to the messages that must follow it in the conversation. */
  readonly turn = {
    openaiChat: (response: object, envelope: Envelope, options?: CallOptions): Promise<OpenaiChatTurn> =>
      this.take('/v1/dialects/openai-chat', 'messages', sealResponse(response, envelope), options),
    openaiResponses: (response: object, envelope: Envelope, options?: CallOptions): Promise<OpenaiResponsesTurn> =>
      this.take('/v1/dialects/openai-responses', 'input', sealResponse(response, envelope), options),
    anthropic: (response: object, envelope: Envelope, options?: CallOptions): Promise<AnthropicTurn> =>
      this.take('/v1/dialects/anthropic', 'message', sealResponse(response, envelope), options),
  };

  constructor(options: CallgateOptions) {
    this.link = linkOf(options);
    this.limits = limitsOf(options);
  }

  /**
   * Proposes one call, and again only with the same ids and bytes; what is `unknown`, `pending` or `in_progress` is followed until it is
   * settled or `waitMs` is over. Whatever the gateway says of the call is returned. Thrown is a `CallgateError`, with the ids to go on with.
   * @typeParam Result what the tool's contract says of its result; it is not checked here.
   */
  async call<Result = Json>(proposal: Proposal, options?: CallOptions): Promise<Answer<Result>> {
    const { callId, ids, body } = sealProposal(proposal);
    const answer = (await this.settle(callQuestion(proposing('/v1/calls', body, isAnswer), ids), options)) as Answer<Result>;
    // An operation that was followed is told as its first proposer knows it.
    return answer.call_id === null || answer.call_id === callId ? answer : { ...answer, call_id: callId, duplicate_of: answer.call_id };
  }

  /** Proposes the calls of a turn: one answer for each, in their order. */
  batch(turn: Turn, options?: CallOptions): Promise<Batch> {
    return this.take('/v1/batches', 'results', sealTurn(turn), options);
  }

  /** How an operation stands; with `waitMs` (0 by default) when it is settled, be it by evidence or by a person. */
  async operation<Result = Json>(operationId: string, { waitMs = 0, signal }: CallOptions = {}): Promise<Answer<Result>> {
    return (await this.settle(operationQuestion(operationId), { waitMs, signal })) as Answer<Result>;
  }

  /** Cancels what has not been sent yet; else the answer is `TOO_LATE`. */
  async cancel(operationId: string, options: Pick<CallOptions, 'signal'> = {}): Promise<Answer> {
    return (await this.ask({ method: 'POST', path: `${operationPath(operationId)}/cancel`, waits: false, answers: isAnswer }, options)) as Answer;
  }

  /** The result of an operation whole, however large. */
  async result<Result = Json>(operationId: string, options: Pick<CallOptions, 'signal'> = {}): Promise<Result> {
    let text = '';
    for (let offset: number | null = 0; offset !== null; ) {
      const page: ResultPage = await this.get(`${operationPath(operationId)}/result?offset=${offset}`, isResultPage, options);
      text += page.text;
      if (page.next_offset !== null && page.next_offset <= offset) throw new CallgateError('NOT_A_GATEWAY', `The pages of the result of \`${operationId}\` do not get on.`);
      offset = page.next_offset;
    }
    return JSON.parse(text) as Result;
  }

  /** What to tell a model of its session; `text` is for the system prompt. @param subject as in the calls, where they name one. */
  context(sessionId: string, { subject, signal }: Pick<CallOptions, 'signal'> & { subject?: string | undefined } = {}): Promise<SessionContext> {
    const query = subject === undefined ? '' : `?subject=${encodeURIComponent(subject)}`;
    const answers = (document: object): document is SessionContext => 'text' in document && typeof document.text === 'string';
    return this.get(`/v1/sessions/${encodeURIComponent(sessionId)}/context${query}`, answers, { signal });
  }

  /** The tools that this key may use, in Callgate's own shape or in a provider's. */
  tools(): Promise<{ tools: Tool[] }>;
  tools<ProviderTool = JsonObject>(dialect: Dialect, options?: Pick<CallOptions, 'signal'>): Promise<ProjectedTools<ProviderTool>>;
  tools(dialect?: Dialect, options: Pick<CallOptions, 'signal'> = {}): Promise<object> {
    const query = dialect === undefined ? '' : `?dialect=${encodeURIComponent(dialect)}`;
    return this.get(`/v1/tools${query}`, (document): document is object => 'tools' in document && Array.isArray(document.tools), options);
  }

  private async take<T extends Batch>(path: string, member: string, { ids, body }: Sealed, options?: CallOptions): Promise<T> {
    const answers = (document: object): boolean => member in document && 'results' in document && Array.isArray(document.results);
    return unrefused(await this.settle(turnQuestion(proposing(path, body, answers), ids), options), ids) as T;
  }

  private async get<T extends object>(path: string, answers: (document: object) => document is T, options: Pick<CallOptions, 'signal'>): Promise<T> {
    return unrefused(await this.ask({ method: 'GET', path, waits: false, answers }, options)) as T;
  }

  private ask(ask: Ask, { signal }: Pick<CallOptions, 'signal'>): Promise<object> {
    return this.settle(plainQuestion(ask), { waitMs: this.limits.elapsedMs, signal });
  }

  private settle(question: Question, { waitMs = defaultWaitMs, signal }: CallOptions = {}): Promise<object> {
    return settle(this.link, this.limits, question, { waitMs: checkedNumber('waitMs', waitMs, 0), signal });
  }
}

/** A piece of the result as JSON text, cut between characters. */
interface ResultPage { text: string; next_offset: number | null }

function isResultPage(document: object): document is ResultPage {
  return 'text' in document && typeof document.text === 'string' && 'next_offset' in document;
}

/** A refusal of the request as a whole: there is no answer of this path to give. */
function unrefused(document: object, ids: Ids = noIds): object {
  if (!isAnswer(document)) return document;
  throw new CallgateError('REFUSED', `The gateway refused the request (${document.code ?? document.disposition}): ${document.detail ?? 'it does not say why.'}`, { ids, answer: document });
}
