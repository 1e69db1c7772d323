/** Contracts as far as policies are concerned with them. */
import type { EntityPlan } from '../../src/contract/plan.js';
import type { JsonObject } from '../../src/model.js';
import { type Governed, policySchemaOf, type PolicySchema } from '../../src/policy/schema.js';

export function object(properties: JsonObject, required: string[] = []): JsonObject {
  return { type: 'object', properties, required };
}

/** @param tools each by its name: the schema of its arguments, and its entity */
export function schemaOf(tools: Record<string, { args?: JsonObject; entity?: string }>, entities: Record<string, JsonObject>, versioned: string[] = []): PolicySchema {
  const plans = new Map(Object.entries(entities).map(([name, resultSchema]) => [name, {
    name, observation: { tool: { resultSchema }, version: versioned.includes(name) ? {} : null },
  } as unknown as EntityPlan]));
  return policySchemaOf(Object.entries(tools).map(([name, { args, entity }]): Governed => ({
    name, argsSchema: args ?? object({}), entity: entity === undefined ? null : (plans.get(entity) ?? null),
  })));
}
