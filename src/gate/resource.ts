/** What policy is asked about: the entity of a call with the attributes that were observed. */
import type { JsonObject } from '../model.js';
import type { ObservedCall } from './calls.js';

export interface Resource { type: string; id: string; attributes: JsonObject }

export function resourceOf(call: ObservedCall): Resource | null {
  const { entity } = call.identity;
  if (!entity) return null;
  const observed = call.observations.find(({ name }) => name === entity.type);
  return { type: entity.type, id: entity.id, attributes: observed?.value ?? {} };
}
