/** A rule of the contract that could not be evaluated: it refuses the call, by its name. */
import type { EvaluationError } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';

export function predicateError(id: string, error: EvaluationError): Refusal {
  return refuse('PREDICATE_ERROR', `The rule \`${id}\` could not be evaluated.`, {
    errors: [{ pointer: '', code: 'predicate_error', message: `The rule \`${id}\` could not be evaluated.`, expected: error.source }],
  });
}
