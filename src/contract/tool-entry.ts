/** The tools of all files by name, with their schemas compiled: what everything else refers to. */
import type { Json, JsonObject } from '../model.js';
import { celClass, celDyn, celString, celTypeOf, celUnknown, type CelType } from './cel-types.js';
import type { ContractDocument, ToolSource } from './document.js';
import { Findings } from './findings.js';
import type { ToolPlan } from './plan.js';
import type { Path } from './pointer.js';
import { isSchemaObject, schemaProblems, type Use } from './schema-subset.js';
import { type CompiledArguments, InvalidSchema, type SchemaCompiler } from './schemas.js';
import { checkShape } from './shape.js';
import type { SourceFile } from './source.js';
import { mentionsEnvironment } from './upstream.js';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export interface ToolEntry {
  readonly name: string;
  readonly file: SourceFile;
  readonly document: ContractDocument;
  readonly source: ToolSource;
  readonly path: Path;
  readonly argsType: CelType;
  readonly resultType: CelType;
  /** The result as an observation that declares a version shows it: with the version as text. */
  readonly versionedType: CelType;
  /** Of what `errors` and `not_found` read. */
  readonly errorBody: CelType;
  /** Of what `async.accepted` reads. */
  readonly acceptedBody: CelType;
  readonly args: CompiledArguments | null;
  readonly admitResult: ToolPlan['admitResult'] | null;
  /** Filled while compiling, so that plans can refer to one another in circles (a read observes the entity that it serves). */
  readonly plan: Mutable<ToolPlan>;
}

export interface Tools {
  readonly entries: ReadonlyMap<string, ToolEntry>;
  /** Names that exist and are malformed: reported already, so references to them are not. */
  readonly broken: ReadonlySet<string>;
  /** False when something of a file could not be taken up: what is not there may be what was. */
  readonly whole: boolean;
}

/** Of files that were compiled before: neither their shape nor what they say is checked again, and no schema is looked at before its use. */
export function trustTools(files: readonly SourceFile[], schemas: SchemaCompiler): Tools {
  const entries = files.flatMap((file) => {
    const document = file.document as unknown as ContractDocument;
    return Object.entries(document.tools).map(([name, source]) => toolEntry(name, file, document, source, schemas, new Findings()));
  });
  return { entries: new Map(entries.map((entry) => [entry.name, entry])), broken: new Set(), whole: true };
}

export function indexTools(files: readonly SourceFile[], schemas: SchemaCompiler, findings: Findings): Tools {
  const entries = new Map<string, ToolEntry>();
  const broken = new Set<string>();
  let whole = true;
  for (const file of files) {
    const verdict = checkShape(file);
    whole &&= verdict.usable && verdict.brokenTools.size === 0;
    findings.list.push(...verdict.diagnostics);
    refuseEnvironment(file, findings);
    const document = file.document as unknown as ContractDocument;
    for (const [name, source] of Object.entries(toolsOf(file.document))) {
      if (!verdict.usable || verdict.brokenTools.has(name)) broken.add(name);
      else if (entries.has(name)) collision(entries.get(name)!, file, name, findings);
      else entries.set(name, toolEntry(name, file, document, source as unknown as ToolSource, schemas, findings));
    }
  }
  return { entries, broken, whole };
}

/** Of a document whose shape may be wrong. */
function toolsOf(document: Json): Record<string, Json> {
  const tools = typeof document === 'object' && document !== null && !Array.isArray(document) ? document['tools'] : undefined;
  return typeof tools === 'object' && tools !== null && !Array.isArray(tools) ? tools : {};
}

function collision(first: ToolEntry, file: SourceFile, name: string, findings: Findings): void {
  const place = first.file.keyPosition(first.path);
  findings.key(
    file,
    ['tools', name],
    'CG601',
    `the tool \`${name}\` of \`${file.file}\` is already declared in \`${first.file.file}\` line ${place.line}`,
  );
}

function toolEntry(
  name: string,
  file: SourceFile,
  document: ContractDocument,
  source: ToolSource,
  schemas: SchemaCompiler,
  findings: Findings,
): ToolEntry {
  const path: Path = ['tools', name];
  const place: SchemaPlace = { file, findings };
  const args = once(() => compiled('args', source.args, [...path, 'args'], place, (schema) => schemas.arguments(schema, source.coerce ?? 'none')));
  const admitting = (schema: JsonObject, at: Path) => compiled('result', schema, at, place, (admitted) => schemas.result(admitted));
  const admitResult = once(() => admitting(source.result, [...path, 'result']));
  const argsType = once(() => (args() ? celTypeOf(source.args, source.args, 'args') : celUnknown));
  const resultType = once(() => (admitResult() ? celTypeOf(source.result, source.result, 'result') : celUnknown));
  const versionedType = once(() => versioned(resultType()));
  const errorBody = once(() => {
    const own = source.error_body !== undefined;
    return bodyType(source.error_body ?? document.upstream.error_body, own ? [...path, 'error_body'] : ['upstream', 'error_body'], admitting);
  });
  const acceptedBody = once(() => bodyType(source.async?.body, [...path, 'async', 'body'], admitting));
  return {
    name,
    file,
    document,
    source,
    path,
    plan: {} as Mutable<ToolPlan>,
    get errorBody() {
      return errorBody();
    },
    get acceptedBody() {
      return acceptedBody();
    },
    get args() {
      return args();
    },
    get admitResult() {
      return admitResult();
    },
    get argsType() {
      return argsType();
    },
    get resultType() {
      return resultType();
    },
    get versionedType() {
      return versionedType();
    },
  };
}

function once<T extends object | null>(work: () => T): () => T {
  let done: { value: T } | undefined;
  return () => {
    done ??= { value: work() };
    return done.value;
  };
}

interface SchemaPlace {
  file: SourceFile;
  findings: Findings;
}

function compiled<T>(use: Use, schema: JsonObject, path: Path, { file, findings }: SchemaPlace, compile: (schema: JsonObject) => T): T | null {
  const problems = schemaProblems(schema, use);
  for (const problem of problems) findings.key(file, [...path, ...problem.path], problem.code, problem.message);
  if (problems.length > 0) return null;
  try {
    return compile(schema);
  } catch (thrown) {
    const place = thrown instanceof InvalidSchema ? thrown.path : [];
    findings.key(file, [...path, ...place], 'CG605', `the schema is not valid: ${(thrown as Error).message}`);
    return null;
  }
}

/**
 * What an answer of the service holds, as rules read it. A body off its schema has no value at all, so that reading it fails and no rule
 * matches by a member that means something else there.
 */
function bodyType(schema: JsonObject | undefined, path: Path, admitting: (schema: JsonObject, path: Path) => ToolPlan['admitResult'] | null): CelType {
  if (schema === undefined) return celDyn;
  const admit = admitting(schema, path);
  if (!admit) return celUnknown;
  const type = celTypeOf(schema, schema, 'body');
  const decode = (value: unknown): unknown => {
    const admitted = admit(value as Json);
    return admitted ? type.decode(admitted.result) : undefined;
  };
  return { ...type, decode };
}

function refuseEnvironment(file: SourceFile, findings: Findings): void {
  const walk = (value: Json, path: Path): void => {
    if (typeof value === 'string') {
      if (mentionsEnvironment(value) && path.join('.') !== 'upstream.base_url')
        findings.value(file, path, 'CG007', 'the environment cannot be read here');
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) walk(member, [...path, name]);
    }
  };
  const document = isSchemaObject(file.document) ? file.document : {};
  // A misspelt section was reported as such, and may be `upstream`.
  for (const section of ['service', 'upstream', 'entities', 'tools', 'policies']) walk(document[section] ?? null, [section]);
}

/** What has members gets one more, in the place of one of that name. */
function versioned(type: CelType): CelType {
  return type.fields ? celClass('observation', new Map([...type.fields, ['version', celString]])) : type;
}
