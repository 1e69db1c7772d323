/** Why the store does not do what it was asked. */
export type RefusalCode =
  | 'NOT_FOUND'
  | 'NOT_PENDING'
  | 'NOT_DELIVERED'
  | 'INVALID_REASON'
  | 'ITEMS_NOT_IN_ORDER'
  | 'LENGTHS_DIFFER'
  | 'SAME_ITEM'
  | 'VARIANT_NOT_AVAILABLE'
  | 'PAYMENT_METHOD_UNKNOWN'
  | 'PAYMENT_METHOD_NOT_ALLOWED'
  | 'SAME_PAYMENT_METHOD'
  | 'NOT_PAID_EXACTLY_ONCE'
  | 'GIFT_CARD_TOO_SMALL'
  | 'NOT_AN_EXPRESSION';

/** Nothing was changed. */
export class Refused extends Error {
  constructor(readonly code: RefusalCode) {
    super(`the store refuses: ${code}`);
    this.name = 'Refused';
  }
}

export function insist(condition: boolean, code: RefusalCode): asserts condition {
  if (!condition) throw new Refused(code);
}

export function found<T>(record: T | undefined): T {
  if (record === undefined) throw new Refused('NOT_FOUND');
  return record;
}
