/** Sessions: whose budgets a call draws on, what was read in them, and what they were told. */
import type { Receipt } from './operations.js';

/** Whose budgets a call draws on, and for which task a refusal of it counts. */
export interface SessionScope {
  id: string;
  /** Where the application did not create the session: of this principal and subject alone. */
  own: string;
  /** The intent, or without one the session: refused proposals are counted by tool and task. */
  task: string;
}

export interface Purse { limit: number; used: number }

/** What was left when a call was looked up. */
export interface SessionStanding {
  /** The session that pays: itself, or its topmost parent. Null where the application did not create it, and the principal pays. */
  root: string | null;
  /** Null: nothing was ever drawn from it. */
  executions: Purse | null;
  /** `limit` null: the configured one. */
  proposals: { limit: number | null; used: number };
}

/** `opened`: the purse was seen, and need not be made. */
export interface ExecutionBudget { scope: string; quota: number; opened?: boolean }

export interface TurnDraw { tenant: string; session: SessionScope; turnId: string; limit: number }

/** A refusal that the guard decided, with the budget of re-proposals that it draws on. */
export interface ChargedRefusal { receipt: Receipt; charge: { session: SessionScope; tool: string; limit: number } }

export interface SeenEntity { tenant: string; principal: string; subject: string; sessionId: string; entity: string; version: string | null; state: string | null }

/** A session that is told something which may carry injected text, and by which tool. */
export interface Mark { tenant: string; principal: string; subject: string; sessionId: string; tool: string }

/** Where the result of a committed operation is looked for by `last(…)`; `entity` is '' where the tool has none. */
export interface Remembered { principal: string; subject: string; sessionId: string; tool: string; entity: string }

/** `entity` null: the latest of the session, on whichever. */
export interface LastQuery { tenant: string; principal: string; subject: string; sessionId: string; tool: string; entity: string | null }

/** A read that may be a repeat: its key, and since when its session has not changed, as looked up before it was made. */
export interface Repetition { tenant: string; key: Buffer; since: string }

/** Of equal reads of one session. */
export interface Reading {
  /** Names the newest committed write of the session, and the newest refusal that rested on the state of the world. */
  since: string;
  /** How many there were since then. */
  times: number;
  /** The last of them, by its operation. */
  last: string | null;
}

/** What one caller was told of in a session, and how the budgets stand that it draws on there. */
export interface SessionContext {
  entities: { entity: string; version: string | null; state: string | null; observedAt: string }[];
  standing: SessionStanding;
  turns: Purse | null;
  refusals: { tool: string; task: string; used: number }[];
  /** It was told something that may carry injected text. */
  untrusted: boolean;
}
