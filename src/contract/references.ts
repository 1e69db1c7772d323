/** Resolves the names by which one part of a contract speaks of another. */
import type { JsonObject } from '../model.js';
import { celTypeOf } from './cel-types.js';
import type { EntitySource } from './document.js';
import { unknownType, type CompiledExpression } from './expressions.js';
import type { Findings } from './findings.js';
import { nearest } from './nearest.js';
import type { Path } from './pointer.js';
import { isSchemaObject } from './schema-subset.js';
import type { Site } from './site.js';
import type { ToolEntry, Tools } from './tool-entry.js';

export class References {
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
    if (entry && entry.source.effect !== 'none')
      this.findings.value(site.file, path, 'CG108', `\`${name}\` has \`effect: ${entry.source.effect}\`, and only a read may be made here`);
    return entry;
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
