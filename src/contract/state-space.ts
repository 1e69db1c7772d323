/** Every state with every action of every transition table: what is legal and where it leads, and what the table contradicts. Pure. */
import type { ContractDocument, EntitySource } from './document.js';
import type { Catalogue } from './plan.js';
import { readCanonicalSource } from './source.js';

export interface StateSpace {
  service: string;
  entity: string;
  /** In the order of the contract. `next` is the declared next state, or null where the action is illegal. */
  states: { state: string; entered: 'initial' | 'external' | 'action' | 'never'; actions: { tool: string; next: string | null }[] }[];
  /** No sequence of actions leads there from a state that is initial or external: a contradiction, as the rules for it can never apply. */
  unreachable: string[];
  /** Nothing can be done there any more. Right for the end of a life, and worth a look elsewhere. */
  dead_ends: string[];
  /** Writes on the entity that the table does not name: illegal in every state. */
  without_row: string[];
  /** Writes that change the entity (`touches`) without being actions of its table. */
  touching: string[];
  /** Reads that name the entity: no row judges them, so they are made in every state. */
  reading: string[];
}

export function stateSpaces(catalogue: Catalogue): StateSpace[] {
  return readCanonicalSource(catalogue.source).files.flatMap(({ document }) => {
    const contract = document as unknown as ContractDocument;
    return Object.entries(contract.entities ?? {}).flatMap(([name, entity]) => (entity.states ? [spaceOf(contract, name, entity, entity.states)] : []));
  });
}

export function contradicts({ unreachable, without_row: withoutRow }: StateSpace): boolean {
  return unreachable.length > 0 || withoutRow.length > 0;
}

function spaceOf({ service, tools }: ContractDocument, name: string, entity: EntitySource, states: readonly string[]): StateSpace {
  const { initial = [], external = [], transitions = {} } = entity;
  const writes = Object.entries(tools).filter(([, { effect }]) => effect !== 'none');
  // A touched entity's table judges those that it lists.
  const listed = new Set(Object.values(transitions).flatMap((row) => Object.keys(row)));
  const actions = writes.filter(([tool, { entity: own }]) => own === name || listed.has(tool)).map(([tool]) => tool);
  const next = (state: string, tool: string): string | null => transitions[state]?.[tool] ?? null;
  const reached = reachable([...initial, ...external], (state) => Object.values(transitions[state] ?? {}));
  const entered = (state: string): StateSpace['states'][number]['entered'] =>
    initial.includes(state) ? 'initial' : external.includes(state) ? 'external' : reached.has(state) ? 'action' : 'never';
  return {
    service,
    entity: name,
    states: states.map((state) => ({ state, entered: entered(state), actions: actions.map((tool) => ({ tool, next: next(state, tool) })) })),
    unreachable: states.filter((state) => !reached.has(state)),
    dead_ends: states.filter((state) => Object.keys(transitions[state] ?? {}).length === 0),
    without_row: actions.filter((tool) => states.every((state) => next(state, tool) === null)),
    touching: writes.filter(([tool, source]) => source.entity !== name && source.touches?.includes(name) && states.every((state) => next(state, tool) === null)).map(([tool]) => tool),
    reading: Object.entries(tools).filter(([, tool]) => tool.effect === 'none' && tool.entity === name).map(([tool]) => tool),
  };
}

function reachable(from: readonly string[], after: (state: string) => readonly string[]): ReadonlySet<string> {
  const reached = new Set<string>();
  for (let open = [...from]; open.length > 0; open = open.flatMap(after)) {
    open = open.filter((state) => !reached.has(state));
    for (const state of open) reached.add(state);
  }
  return reached;
}

/** For a terminal: a table for each entity, states down, actions across. */
export function formatStateSpaces(spaces: readonly StateSpace[]): string {
  return spaces.map(formatted).join('\n\n') || 'no entity has a transition table';
}

function formatted(space: StateSpace): string {
  const tools = space.states[0]?.actions.map(({ tool }) => tool) ?? [];
  const rows = [['state', 'entered', ...tools], ...space.states.map(({ state, entered, actions }) => [state, entered, ...actions.map(({ next }) => next ?? '-')])];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const remarks: [string, readonly string[]][] = [
    ['CONTRADICTION: nothing leads to', space.unreachable],
    ['CONTRADICTION: legal in no state', space.without_row],
    ['nothing can be done any more in', space.dead_ends],
    ['changed, outside the table, by', space.touching],
    ['read in every state by', space.reading],
  ];
  return [
    `${space.service}.${space.entity}: ${space.states.length} states, ${tools.length} actions, \`-\` is illegal`,
    ...rows.map((row) => `  ${row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ').trimEnd()}`),
    ...remarks.flatMap(([what, names]) => (names.length > 0 ? [`  ${what}: ${names.join(', ')}`] : [])),
  ].join('\n');
}
