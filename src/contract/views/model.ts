import type { JsonObject } from '../../model.js';
import type { ToolPlan } from '../plan.js';

export interface ModelView {
  name: string;
  description: string;
  /** Closed JSON Schema of what the model may send; values that are bound are not part of it. */
  input_schema: JsonObject;
  effect: ToolPlan['effect'];
}

/** What a model is told of a tool. Names, hosts, policies and bound values of the execution view never appear. */
export function modelView({ name, purpose, useWhen, notWhen, argsSchema, effect }: ToolPlan): ModelView {
  const sentences = [purpose, useWhen && `Use when: ${useWhen}`, notWhen && `Do not use when: ${notWhen}`];
  return { name, description: sentences.filter(Boolean).join('\n'), input_schema: argsSchema, effect };
}
