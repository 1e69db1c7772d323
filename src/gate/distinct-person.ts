/** Whoever decides on a call is somebody else than those who had a part in it. Pure. */
import { refuse, type Refusal } from '../errors.js';
import type { Principal } from '../model.js';
import type { Operation } from './ports.js';

/** @param subject null where the subject may decide: an application answers for its users */
export function notDistinct({ id }: Principal, { principal, subject }: Pick<Operation, 'principal'> & { subject: string | null }, approvers: readonly string[] = []): Refusal | undefined {
  const parts = [...(principal === id ? ['proposed it'] : []), ...(subject === id ? ['is its subject'] : []), ...(approvers.includes(id) ? ['approved it'] : [])];
  return parts.length === 0 ? undefined : refuse('DISTINCT_PERSON_REQUIRED', `\`${id}\` ${parts.join(' and ')}.`);
}
