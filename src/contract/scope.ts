/** What the expressions of a tool can name, in the order in which it becomes known. */
import type { Json } from '../model.js';
import { type CelType, celBool, celClass, celList, celString, celTimestamp } from './cel-types.js';
import { inDependencyOrder } from './dependency-order.js';
import type { EntitySource } from './document.js';
import { type CompiledExpression, Names, namesIn } from './expressions.js';
import { compileObservation, compileObservations, responseTypes } from './observations.js';
import { nearest } from './nearest.js';
import type { EntityPlan, ObservationPlan, ToolPlan } from './plan.js';
import type { Path } from './pointer.js';
import type { References } from './references.js';
import type { Site } from './site.js';
import type { ToolEntry } from './tool-entry.js';

const principalType = celClass(
  'principal',
  new Map<string, CelType>([
    ['id', celString],
    ['tenant', celString],
    ['subject', celString],
    ['roles', celList(celString)],
  ]),
);
const sessionType = celClass('session', new Map([['id', celString], ['untrusted', celBool]]));
const operationType = celClass('operation', new Map([['id', celString]]));

/** Names that already mean something in every expression, and words of CEL. */
export const reservedNames: ReadonlySet<string> = new Set(
  [
    'args bound principal subject session operation now status headers body result cel google constructor prototype',
    'true false null in as break const continue else for function if import let loop package namespace return var void while',
    'int uint double bool string bytes list map type dyn',
  ].flatMap((words) => words.split(' ')),
);

export interface ToolScope {
  /** While the call is decided: arguments, who asks, what was observed, lets. */
  readonly deciding: Names;
  /** With `operation`, which gets its id when all that may refuse the call was asked: for what is sent and what follows. */
  readonly sending: Names;
  /** With the upstream's answer. */
  readonly answered: Names;
  readonly bind: Record<string, CompiledExpression<Json>>;
  readonly entities: EntityScope;
  readonly observations: readonly ObservationPlan[];
  readonly lets: ToolPlan['lets'];
}

export function compileScope(entry: ToolEntry, references: References, site: Site): ToolScope {
  const { source, path } = entry;
  const asked = Names.of({ args: entry.argsType, principal: principalType, subject: celString, session: sessionType });
  const entities = new EntityScope(entry, references, site, asked);
  const bind = site.members([...path, 'bind'], source.bind ?? {}, asked);
  for (const [name, expression] of Object.entries(bind)) beforeLookUp(site, [...path, 'bind', name], expression);
  const bound = celClass('bound', new Map(Object.entries(bind).map(([name, { type }]) => [name, asked.typeNamed(type)])));
  const asking = asked.with({ ...entities.types, bound, now: celTimestamp });
  const { names: known, observations } = compileObservations(entry, references, site, asking);
  const { names: deciding, lets } = compileLets(entry, site, known);
  const sending = deciding.with({ operation: operationType });
  return { deciding, sending, answered: sending.with(responseTypes), bind, entities, observations, lets };
}

/** The entity that a tool acts on, those that it touches, and the names that they bring into scope. */
class EntityScope {
  readonly own: EntityPlan | null;
  readonly observes: boolean;
  readonly touched: EntityPlan[] = [];
  readonly types: Record<string, CelType> = {};

  constructor(
    private readonly entry: ToolEntry,
    private readonly references: References,
    private readonly site: Site,
    private readonly asked: Names,
  ) {
    const { source, path } = entry;
    const served = servedEntity(entry);
    const name = source.entity ?? served;
    this.own = name === undefined ? null : this.add(name, source.entity === undefined ? path : [...path, 'entity']);
    this.observes = this.own !== null && name === served;
    for (const [index, touched] of (source.touches ?? []).entries()) {
      const plan = this.add(touched, [...path, 'touches', index]);
      if (plan) this.touched.push(plan);
    }
  }

  private add(name: string, path: Path): EntityPlan | null {
    const entity = this.references.entity(this.entry, name, path);
    if (!entity) return null;
    const place: Path = ['entities', name];
    const observation = compileObservation({ name, source: entity.observe, path: [...place, 'observe'] }, this.site, this.references, this.asked);
    this.types[name] = observation.type;
    const state = this.site.optional([...place, 'state'], entity.state, Names.of({ [name]: observation.type }), 'string');
    if (state?.values) this.checkStates([...place, 'states'], entity.states ?? [], state.values);
    const id = this.site.expression([...place, 'id'], entity.id, this.asked, 'string');
    beforeLookUp(this.site, [...place, 'id'], id);
    return {
      name,
      id,
      observation: observation.plan,
      state,
      states: entity.states ?? [],
      external: entity.external ?? [],
      transitions: entity.transitions ?? {},
    };
  }

  private checkStates(path: Path, states: readonly string[], observed: ReadonlySet<string>): void {
    for (const [index, state] of states.entries()) {
      const meant = nearest(state, observed);
      if (!observed.has(state))
        this.site.findings.value(this.site.file, [...path, index], 'CG609', `the observation never gives the state \`${state}\`${meant ? `; did you mean \`${meant}\`?` : ''}`);
    }
  }
}

/** What tells calls apart is worked out before the ledger is asked what the session has been told. */
function beforeLookUp(site: Site, path: Path, { paths }: CompiledExpression<unknown>): void {
  if (paths.has('session.untrusted')) site.findings.value(site.file, path, 'CG101', '`session.untrusted` is not known yet when this is worked out');
}

/** The entity, if any, whose observation this tool is; of several, the first by name. */
function servedEntity({ name, document, source }: ToolEntry): string | undefined {
  const served = (Object.entries(document.entities ?? {}) as [string, EntitySource][])
    .filter(([, entity]) => entity.observe.tool === name)
    .map(([entity]) => entity)
    .sort();
  return source.entity !== undefined && served.includes(source.entity) ? source.entity : served[0];
}

function compileLets({ source, path }: ToolEntry, site: Site, given: Names): { names: Names; lets: ToolPlan['lets'] } {
  const lets: { name: string; value: CompiledExpression<Json> }[] = [];
  let names = given;
  for (const [name, text] of inDependencyOrder(source.let ?? {}, namesIn)) {
    const value = site.expression([...path, 'let', name], text, names, 'json');
    lets.push({ name, value });
    names = names.withLazy(name, value);
  }
  return { names, lets };
}
