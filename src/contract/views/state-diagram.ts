/** The transition table of an entity as a Mermaid state diagram. */
import type { EntitySource } from '../document.js';

export function stateDiagram({ states = [], initial = [], external = [], transitions = {} }: EntitySource): string {
  const id = (state: string): string => `s${states.indexOf(state)}`;
  return [
    'stateDiagram-v2',
    ...states.map((state) => `  state "${state.replace(/["\n]/g, ' ')}" as ${id(state)}`),
    ...initial.map((state) => `  [*] --> ${id(state)}`),
    ...external.map((state) => `  [*] --> ${id(state)}: by the service itself`),
    ...Object.entries(transitions).flatMap(([state, actions]) =>
      Object.entries(actions).map(([action, next]) => `  ${id(state)} --> ${id(next)}: ${action}`),
    ),
  ].join('\n');
}
