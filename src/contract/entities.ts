/**
 * The entities that a tool acts on or touches, and what it observes besides, each after what it rests on: an id may be told by an
 * observation, and an observation may name an entity.
 */
import { type CelType, celClass, celString, celTimestamp, celUnknown } from './cel-types.js';
import { beforeLookUp, type CompiledBind } from './bind.js';
import { inDependencyOrder } from './dependency-order.js';
import { type EntitySource, keptByGateway, type ObservationSource } from './document.js';
import { type CompiledExpression, type Names, namesIn } from './expressions.js';
import { compileEach, compileObservation, mentioned, type Observed } from './observations.js';
import { nearest } from './nearest.js';
import { type EntityPlan, lastResults, type ObservationPlan } from './plan.js';
import type { Path } from './pointer.js';
import type { References } from './references.js';
import { Site } from './site.js';
import type { ToolEntry } from './tool-entry.js';

export interface EntityScope {
  readonly own: EntityPlan | null;
  /** The tool is what observes its own entity. */
  readonly observes: boolean;
  readonly touched: readonly EntityPlan[];
  readonly observations: readonly ObservationPlan[];
  /** All that is known when the call is decided, apart from `let`. */
  readonly names: Names;
}

interface EntityUse {
  source: EntitySource;
  /** Where the tool names it. */
  path: Path;
}

export function compileEntities(entry: ToolEntry, references: References, site: Site, given: Names, bound: CompiledBind): EntityScope {
  const served = servedEntity(entry);
  const ownName = entry.source.entity ?? served;
  const uses = entitiesUsed(entry, ownName, references);
  const compiler = new EntityCompiler(entry, references, site, given, bound, uses);
  const own = ownName === undefined ? null : (compiler.entities.get(ownName) ?? null);
  const touched = (entry.source.touches ?? []).flatMap((name) => compiler.entities.get(name) ?? []);
  return { own, observes: own !== null && own.name === served, touched, observations: compiler.observations, names: compiler.names };
}

function entitiesUsed(entry: ToolEntry, own: string | undefined, references: References): Map<string, EntityUse> {
  const { source, path } = entry;
  const named: [string, Path][] = [
    ...(own === undefined ? [] : [[own, source.entity === undefined ? path : [...path, 'entity']] as [string, Path]]),
    ...(source.touches ?? []).map((name, index): [string, Path] => [name, [...path, 'touches', index]]),
  ];
  return new Map(
    named.flatMap(([name, place]) => {
      const entity = references.entity(entry, name, place);
      return entity ? [[name, { source: entity, path: place }] as const] : [];
    }),
  );
}

class EntityCompiler {
  readonly entities = new Map<string, EntityPlan>();
  readonly observations: ObservationPlan[] = [];
  names: Names;
  /** Types of what was compiled since `names`, which is extended only for what reads them: each extension is an environment. */
  private pending: Record<string, CelType> = {};
  private readonly mentions: ReadonlyMap<string, ReadonlySet<string>>;
  private readonly circular: ReadonlySet<string>;

  constructor(
    private readonly entry: ToolEntry,
    private readonly references: References,
    private readonly site: Site,
    given: Names,
    private readonly bound: CompiledBind,
    private readonly uses: ReadonlyMap<string, EntityUse>,
  ) {
    const unresolved = [entry.source.entity, ...(entry.source.touches ?? [])].filter((name) => name !== undefined && !uses.has(name)) as string[];
    // What reads the entity by the name that was meant is not reported as well.
    this.names = unresolved.length > 0 ? given.with(Object.fromEntries(unresolved.map((name) => [name, celUnknown]))) : given;
    const observed = Object.entries(entry.source.observe ?? {}).map(([name, source]) => [name, mentioned(source)] as const);
    this.mentions = new Map([...observed, ...[...uses].map(([name, { source }]) => [name, mentionedBy(source)] as const)]);
    this.circular = this.circles();
    for (const [name, named] of inDependencyOrder(Object.fromEntries(this.mentions), (each) => each)) {
      const use = uses.get(name);
      const type = use ? this.entity(name, use, named) : this.observation(name, named);
      this.pending[name] = type;
    }
    this.names = this.names.with({ ...this.pending, now: celTimestamp });
  }

  private entity(name: string, use: EntityUse, named: ReadonlySet<string>): CelType {
    const { site, bound, references } = this;
    const { source } = use;
    const place: Path = ['entities', name];
    const names = this.knownTo(named, this.unknowable(name, use, named));
    const id = site.expression([...place, 'id'], source.id, names, 'id');
    beforeLookUp(site, [...place, 'id'], id);
    const seen = source.observe ? compileObservation({ name, source: source.observe, path: [...place, 'observe'] }, site, references, names) : null;
    const type = typeOf(seen, source);
    const kept = keptByGateway(source);
    const state = kept ? null : this.state(name, source, seen);
    const late = restsOnLast(id, bound);
    if (late && name === this.entry.source.entity) this.refuseOwnResult(id);
    this.entities.set(name, {
      name,
      service: this.entry.document.service,
      id,
      idNeeds: [...this.needs(name, namesIn(source.id)), ...(late ? [lastResults] : [])],
      observation: seen && { ...seen.plan, needs: this.needs(name, named) },
      state,
      kept: kept ? { initial: source.initial?.[0] ?? '' } : null,
      states: source.states ?? [],
      external: source.external ?? [],
      transitions: tableOf(source),
    });
    return type;
  }

  /** Its state names the entity itself, which is no use that anything makes of the observation. */
  private state(name: string, source: EntitySource, seen: Observed | null): CompiledExpression<string> | null {
    const { file, findings } = this.site;
    const path: Path = ['entities', name];
    const state = new Site(file, findings).optional([...path, 'state'], source.state, this.names.only({ [name]: seen?.type ?? celUnknown }), 'string');
    for (const [index, listed] of (state?.values ? (source.states ?? []) : []).entries()) {
      const meant = nearest(listed, state!.values!);
      if (!state!.values!.has(listed))
        findings.value(file, [...path, 'states', index], 'CG609', `the observation never gives the state \`${listed}\`${meant ? `; did you mean \`${meant}\`?` : ''}`);
    }
    return state;
  }

  private observation(name: string, named: ReadonlySet<string>): CelType {
    const { site, references } = this;
    const source = this.entry.source.observe![name] as ObservationSource;
    const declared = { name, source, path: [...this.entry.path, 'observe', name] };
    const names = this.knownTo(named, {}, true);
    const { plan, type } = source.for_each
      ? compileEach(declared, source.for_each, site, references, names)
      : compileObservation(declared, site, references, names);
    this.observations.push({ ...plan, needs: this.needs(name, named) });
    return type;
  }

  /** The names so far, with what was compiled since where it is read. */
  private knownTo(named: ReadonlySet<string>, unknown: Record<string, CelType>, now = false): Names {
    const timeless = now && !this.names.knows('now');
    if (timeless || Object.keys(this.pending).some((name) => named.has(name))) {
      this.names = this.names.with({ ...this.pending, ...(timeless ? { now: celTimestamp } : {}) });
      this.pending = {};
    }
    return Object.keys(unknown).length > 0 ? this.names.with(unknown) : this.names;
  }

  private needs(self: string, named: ReadonlySet<string>): string[] {
    return [...named].filter((name) => name !== self && this.mentions.has(name)).sort();
  }

  /** What an id names and this tool does not know, or never will: reported here, and not once more where it is read. */
  private unknowable(name: string, use: EntityUse, named: ReadonlySet<string>): Record<string, CelType> {
    const { findings, file } = this.site;
    if (this.circular.has(name)) {
      findings.value(file, ['entities', name, 'id'], 'CG115', `the id of \`${name}\` rests on itself: ${this.circle(name).join(' → ')}`);
      return Object.fromEntries([...named].filter((each) => this.mentions.has(each)).map((each) => [each, celUnknown]));
    }
    const elsewhere = [...named].filter((each) => !this.names.knows(each) && !this.mentions.has(each) && declared(this.entry, each));
    for (const each of elsewhere)
      findings.value(file, use.path, 'CG116', `which \`${name}\` it is depends on \`${each}\`, and \`${this.entry.name}\` neither acts on \`${each}\` nor observes it`);
    return Object.fromEntries(elsewhere.map((each) => [each, celUnknown]));
  }

  /** An own entity that is told by a result kept under that very entity could never be told. */
  private refuseOwnResult(id: CompiledExpression<string>): void {
    const { bindLast, lasts } = this.bound;
    for (const [member, { names }] of Object.entries(bindLast)) {
      const own = lasts.find(({ name, sameEntity }) => sameEntity && names.has(name));
      if (own && reads(id, member))
        this.site.findings.value(this.site.file, [...this.entry.path, 'bind', member], 'CG115',
          `which \`${this.entry.source.entity}\` it is would be told by the last result of \`${own.tool}\` on the same one`);
    }
  }

  private circles(): Set<string> {
    return new Set([...this.uses.keys()].filter((name) => this.circle(name).length > 0));
  }

  /** The shortest way from a name back to itself, or nothing. */
  private circle(start: string): string[] {
    if (this.mentions.get(start)!.has(start)) return [start, start];
    const ways: string[][] = [[start]];
    const seen = new Set<string>();
    for (let way = ways.shift(); way; way = ways.shift()) {
      for (const next of this.needs(way.at(-1)!, this.mentions.get(way.at(-1)!)!)) {
        if (next === start) return [...way, start];
        if (!seen.has(next)) ways.push([...way, next]);
        seen.add(next);
      }
    }
    return [];
  }
}

function mentionedBy({ id, observe }: EntitySource): ReadonlySet<string> {
  return new Set([...namesIn(id), ...(observe ? mentioned(observe) : [])]);
}

/** Somewhere in this file, though not for this tool. */
function declared({ document: { entities, tools } }: ToolEntry, name: string): boolean {
  return Object.hasOwn(entities ?? {}, name) || Object.values(tools).some(({ observe }) => Object.hasOwn(observe ?? {}, name));
}

function typeOf(seen: Observed | null, source: EntitySource): CelType {
  if (!keptByGateway(source)) return seen?.type ?? celUnknown;
  const state = { ...celString, values: new Set(source.states) };
  return seen && !seen.type.fields ? seen.type : celClass('entity', new Map([...(seen?.type.fields ?? []), ['state', state]]));
}

function restsOnLast(id: CompiledExpression<string>, { bindLast }: CompiledBind): boolean {
  return Object.keys(bindLast).some((member) => reads(id, member));
}

/** By an index, for instance, it is not told which. */
function reads({ names, paths }: CompiledExpression<string>, member: string): boolean {
  return paths.has(`bound.${member}`) || (names.has('bound') && ![...paths].some((path) => path.startsWith('bound.')));
}

const toldByTheCall = new Set(['args', 'bound', 'principal', 'subject', 'session']);

/** The entity, if any, whose observation this tool is, and which its own arguments tell; of several, the first by name. */
function servedEntity({ name, document, source }: ToolEntry): string | undefined {
  const served = (Object.entries(document.entities ?? {}) as [string, EntitySource][])
    .filter(([, { observe, id }]) => observe?.tool === name && [...namesIn(id)].every((each) => toldByTheCall.has(each)))
    .map(([entity]) => entity)
    .sort();
  return source.entity !== undefined && served.includes(source.entity) ? source.entity : served[0];
}

/** States and tools may have any name, and services tell any state: what every object has by itself (`constructor`) is not listed. */
function tableOf({ transitions = {} }: EntitySource): EntityPlan['transitions'] {
  const rows = Object.entries(transitions).map(([state, actions]) => [state, Object.assign(Object.create(null), actions)]);
  return Object.assign(Object.create(null), Object.fromEntries(rows));
}
