/** Resolves the names by which one part of a contract speaks of another. */
import type { JsonObject } from '../model.js';
import type { LastNamed } from './cel-rules.js';
import { type CelType, celTypeOf } from './cel-types.js';
import type { EntitySource, ObservationSource } from './document.js';
import { lastsIn, unknownType, type CompiledExpression } from './expressions.js';
import type { Findings } from './findings.js';
import { nearest } from './nearest.js';
import type { Path } from './pointer.js';
import { isSchemaObject } from './schema-subset.js';
import type { Site } from './site.js';
import type { ToolEntry, Tools } from './tool-entry.js';

export class References {
  private bound: ReadonlySet<string> | undefined;
  private undone: ReadonlySet<string> | undefined;

  constructor(
    private readonly tools: Tools,
    readonly findings: Findings,
  ) {}

  tool(site: Site, name: string, path: Path): ToolEntry | undefined {
    const entry = this.tools.entries.get(name);
    if (!entry && !this.tools.broken.has(name)) {
      this.findings.value(site.file, path, 'CG106', `there is no tool \`${name}\`${meant(nearest(name, this.tools.entries.keys()))}`);
    }
    return entry;
  }

  read(site: Site, name: string, path: Path): ToolEntry | undefined {
    const entry = this.tool(site, name, path);
    if (entry && bindsLast(entry).length > 0)
      this.findings.value(site.file, path, 'CG117', `\`${name}\` binds what a session did before, and cannot be read on behalf of a call`);
    if (entry && entry.source.effect !== 'none')
      this.findings.value(site.file, path, 'CG108', `\`${name}\` has \`effect: ${entry.source.effect}\`, and only a read may be made here`);
    return entry;
  }

  /** The tool whose last result a binding of `entry` takes. */
  last({ name: own, file, source }: ToolEntry, { tool, offset }: LastNamed, path: Path): ToolEntry | undefined {
    const found = this.tools.entries.get(tool);
    const report = (code: 'CG106' | 'CG117' | 'CG118', message: string): void => this.findings.value(file, path, code, message, offset);
    if (!found) {
      if (!this.tools.broken.has(tool)) report('CG106', `there is no tool \`${tool}\`${meant(nearest(tool, this.tools.entries.keys()))}`);
      return undefined;
    }
    if (tool === own) report('CG117', `\`${tool}\` cannot bind its own last result`);
    else if (found.source.effect === 'none') report('CG117', `\`${tool}\` only reads, and what a read has shown is not kept`);
    else if (source.entity !== undefined && found.source.entity !== undefined && source.entity !== found.source.entity)
      report('CG118', `\`${tool}\` acts on \`${found.source.entity}\`, and \`${own}\` on \`${source.entity}\``);
    return found;
  }

  /** Tools whose results others bind. */
  get remembered(): ReadonlySet<string> {
    this.bound ??= new Set([...this.tools.entries.values()].flatMap(bindsLast).map(({ tool }) => tool));
    return this.bound;
  }

  /** Tools that others name as their undo. */
  get undoing(): ReadonlySet<string> {
    this.undone ??= new Set([...this.tools.entries.values()].flatMap(({ source }) => (source.compensate ? [source.compensate.tool] : [])));
    return this.undone;
  }

  /** Types of what the expressions of a tool can meet: its own answers, and those of the tools that are asked for it. */
  answers(entry: ToolEntry): CelType[] {
    const versioned = observationsOf(entry).flatMap(({ tool, version }) => (version === undefined ? [] : [this.tools.entries.get(tool)?.versionedType]));
    const plain = referredTools(entry).map((tool) => this.tools.entries.get(tool)?.resultType);
    return [entry.resultType, entry.errorBody, entry.acceptedBody, ...plain, ...versioned].filter((type) => type !== undefined);
  }

  entity({ document, file }: ToolEntry, name: string, path: Path): EntitySource | undefined {
    const entities = document.entities ?? {};
    if (Object.hasOwn(entities, name)) return entities[name];
    this.findings.value(file, path, 'CG107', `there is no entity \`${name}\`${meant(nearest(name, Object.keys(entities)))}`);
    return undefined;
  }

  /** Holds what is given to a tool against what its schema asks for: names, required ones, types. */
  arguments(site: Site, target: ToolEntry, given: Record<string, CompiledExpression<unknown>>, path: Path): void {
    if (!target.args) return;
    const schema: JsonObject = target.source.args;
    const properties = isSchemaObject(schema['properties']) ? schema['properties'] : {};
    for (const [name, expression] of Object.entries(given)) {
      if (!Object.hasOwn(properties, name)) {
        this.findings.key(
          site.file,
          [...path, name],
          'CG109',
          `\`${target.name}\` has no argument \`${name}\`${meant(nearest(name, Object.keys(properties)))}`,
        );
        continue;
      }
      const wanted = celTypeOf(schema, properties[name], name).name;
      if (!assignable(expression.type, wanted))
        this.findings.value(
          site.file,
          [...path, name],
          'CG109',
          `\`${target.name}\` takes ${family(wanted)} for \`${name}\`, and this is ${family(expression.type)}`,
        );
    }
    for (const name of (schema['required'] as string[] | undefined) ?? []) {
      if (!Object.hasOwn(given, name)) this.findings.key(site.file, path, 'CG109', `\`${target.name}\` needs the argument \`${name}\``);
    }
  }
}

/** Of which tools it binds the last result. */
export function bindsLast({ source }: ToolEntry): LastNamed[] {
  return Object.values(source.bind ?? {}).flatMap((value) => (typeof value === 'string' ? lastsIn(value) : []));
}

/** Whose results its expressions read, or which it names as its undo. */
export function referredTools(entry: ToolEntry): string[] {
  const { source } = entry;
  return [...observationsOf(entry), source.readback, source.compensate, ...bindsLast(entry)].flatMap((one) => (one ? [one.tool] : []));
}

function observationsOf(entry: ToolEntry): ObservationSource[] {
  return [...Object.values(entry.source.observe ?? {}), ...entitiesOf(entry).flatMap(([, { observe }]) => observe ?? [])];
}

/** Those that it acts on, touches or is the observation of. */
export function entitiesOf({ name: tool, source, document }: ToolEntry): [string, EntitySource][] {
  const named = new Set([source.entity, ...(source.touches ?? [])]);
  return Object.entries(document.entities ?? {}).filter(([name, { observe }]) => named.has(name) || observe?.tool === tool);
}

function meant(name: string | undefined): string {
  return name === undefined ? '' : `; did you mean \`${name}\`?`;
}

function assignable(given: string, wanted: string): boolean {
  return (
    given === 'dyn' ||
    given === unknownType ||
    wanted === 'dyn' ||
    family(given) === family(wanted) ||
    (given === 'int' && wanted === 'double')
  );
}

/** Objects and lists are compared as such; their members are checked when the arguments are. */
function family(type: string): string {
  if (type.startsWith('list')) return 'list';
  if (/^decimal\d$/.test(type)) return 'string';
  return ['string', 'int', 'double', 'bool', 'dyn'].includes(type) ? type : 'object';
}
