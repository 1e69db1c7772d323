/** What compiles and will probably be regretted. Warnings: they are told at every check and stop nothing. */
import type { Json, JsonObject } from '../model.js';
import type { Findings } from './findings.js';
import type { Path } from './pointer.js';
import { isSchemaObject, resolve, subschemas } from './schema-subset.js';
import type { ToolEntry } from './tool-entry.js';

export function lintTool(entry: ToolEntry, findings: Findings): void {
  lintBounds(entry, findings);
  if (entry.source.effect !== 'none') lintGuards(entry, findings);
}

/** A model can send anything that the schema admits, so each list and text should say how long it may be. */
function lintBounds({ source, file, path, name }: ToolEntry, findings: Findings): void {
  const walk = (schema: Json, place: Path): void => {
    if (!isSchemaObject(schema)) return;
    const missing = missingBound(schema);
    if (missing) findings.key(file, [...path, 'args', ...place], 'CG616', `\`${String(place.at(-1) ?? name)}\` has no \`${missing}\``);
    for (const below of subschemas(schema)) walk(below.schema, [...place, ...below.path]);
  };
  walk(source.args, []);
  if (isRecursive(source.args)) findings.key(file, [...path, 'args'], 'CG616', 'the schema contains itself, so nothing but the gateway bounds its depth');
}

function missingBound(schema: JsonObject): string | undefined {
  if (schema['type'] === 'array') return schema['maxItems'] === undefined ? 'maxItems' : undefined;
  if (schema['type'] !== 'string') return undefined;
  return ['maxLength', 'enum', 'const', 'format'].some((keyword) => schema[keyword] !== undefined) ? undefined : 'maxLength';
}

function isRecursive(root: JsonObject): boolean {
  const open = new Set<Json>();
  const done = new Set<Json>();
  const within = (schema: Json | undefined): boolean => {
    if (!isSchemaObject(schema) || done.has(schema)) return false;
    if (open.has(schema)) return true;
    open.add(schema);
    const target = schema['$ref'] === undefined ? undefined : resolve(root, schema['$ref']);
    const again = within(target) || subschemas(schema).some((below) => below.path[0] !== '$defs' && within(below.schema));
    open.delete(schema);
    done.add(schema);
    return again;
  };
  return within(root);
}

const guards = /^(dry_?run|preview|simulate|validate_only|confirm(ed)?|force)$/i;

/** An argument that decides whether anything happens at all must be said every time, or its absence decides. */
function lintGuards({ source, file, path }: ToolEntry, findings: Findings): void {
  const { properties, required } = source.args;
  if (!isSchemaObject(properties)) return;
  for (const [name, schema] of Object.entries(properties)) {
    if (!guards.test(name) || !isSchemaObject(schema)) continue;
    const said = Array.isArray(required) && required.includes(name) && schema['default'] === undefined;
    if (!said) findings.key(file, [...path, 'args', 'properties', name], 'CG617', `\`${name}\` decides whether anything happens, and need not be said`);
  }
}
