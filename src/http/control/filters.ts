/** The query of a list: strict, because a filter that was ignored shows records that nobody asked for. */
import { type Static, Type } from '@fastify/type-provider-typebox';
import { type Refusal, refuse } from '../../errors.js';
import { dispositions, operationStates, type Outcome } from '../../model.js';
import type { ReceiptFilter } from '../../ports.js';

const outcomes: readonly Outcome[] = ['committed', 'accepted', 'rejected', 'not_committed', 'unknown'];
const defaultLimit = 50;
const maxLimit = 500;

/** NUL is in no stored text and no database takes it. */
const text = Type.String({ minLength: 1, maxLength: 512, pattern: '^[^\\u0000]*$' });
const instant = Type.String({ format: 'date-time' });
const oneOf = (values: readonly string[]) => Type.Unsafe<string>({ type: 'string', enum: [...values] });

const shared = {
  session_id: Type.Optional(text),
  intent_id: Type.Optional(text),
  tool: Type.Optional(text),
  principal: Type.Optional(text),
  outcome: Type.Optional(oneOf(outcomes)),
  from: Type.Optional(instant),
  to: Type.Optional(instant),
  limit: Type.Optional(Type.String({ pattern: '^[0-9]{1,6}$' })),
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 2048, pattern: '^[^\\u0000]*$' })),
};

export const receiptQuery = Type.Object({ ...shared, disposition: Type.Optional(oneOf(dispositions)) }, { additionalProperties: false });
/** An operation has a state; dispositions are of answers, and so of receipts. */
export const operationQuery = Type.Object({ ...shared, state: Type.Optional(oneOf(operationStates)) }, { additionalProperties: false });

/** Open ones where nothing is said: what waits for somebody. */
export const reviewQuery = Type.Object(
  { state: Type.Optional(oneOf(['open', 'decided'])), tool: shared.tool, reason: Type.Optional(text), limit: shared.limit, cursor: shared.cursor },
  { additionalProperties: false },
);

/** Those that wait where nothing is said. */
export const approvalQuery = Type.Object(
  {
    state: Type.Optional(oneOf(['pending', 'ended'])), tool: shared.tool, by: Type.Optional(oneOf(['client', 'application', 'reviewer'])),
    session_id: shared.session_id, principal: shared.principal, limit: shared.limit, cursor: shared.cursor,
  },
  { additionalProperties: false },
);

type SharedQuery = Pick<Static<typeof receiptQuery>, 'limit'> & { from?: string; to?: string };
type Filter<Query extends SharedQuery> = Omit<Query, 'limit'> & Pick<ReceiptFilter, 'limit'>;

export function filterOf<Query extends SharedQuery>(query: Query): Filter<Query> | Refusal {
  const limit = query.limit === undefined ? defaultLimit : Number(query.limit);
  if (limit < 1 || limit > maxLimit) return invalid('limit', `must be 1 to ${maxLimit}`);
  for (const name of ['from', 'to'] as const) {
    const instant = query[name];
    if (instant !== undefined && !(Date.parse(instant) >= 0)) return invalid(name, 'must be an instant since 1970 without a leap second');
  }
  return { ...query, limit };
}

function invalid(parameter: string, message: string): Refusal {
  return refuse('INVALID_ENVELOPE', `\`${parameter}\` ${message}.`, { errors: [{ pointer: `/${parameter}`, code: 'INVALID_PARAMETER', message }] });
}
