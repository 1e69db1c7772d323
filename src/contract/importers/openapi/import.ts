/** An OpenAPI document to the draft of a contract: what it says, and as open questions what it does not. */
import type { Json, JsonObject } from '../../../model.js';
import { gapsIn } from '../../gaps.js';
import { nearest } from '../../nearest.js';
import { Commented, type Draft, writeDraft } from './draft.js';
import { chosen, type Operation, operationsOf, type Selection, unmatched } from './operations.js';
import { readDocument, type ReadProblem } from './read.js';
import { clean, objectOf, own, shortened, textOf } from './source.js';
import { importTool } from './tool.js';
import { upstreamDraft } from './upstream.js';

export interface ImportOptions extends Selection {
  /** Of the document, for the first line of the draft. */
  file: string;
  /** The service's name; from the title when it is not given. */
  service?: string;
}

export type ImportResult =
  | { draft: string; tools: string[]; gaps: number; left: number }
  /** The document cannot be read. */
  | { problems: ReadProblem[] }
  /** Nothing, or nothing that exists, was chosen; with all that there is to choose from. */
  | { unchosen: string; operations: Operation[] };

export function importOpenapi(text: string, options: ImportOptions): ImportResult {
  const read = readDocument(text);
  if ('problems' in read) return read;
  const operations = operationsOf(read.document);
  const refused = unusableChoice(operations, options);
  if (refused !== null) return { unchosen: refused, operations };
  const selected = chosen(operations, options);
  const draft = contract(read.document, selected, operations, options);
  const plain = withoutComments(draft);
  return {
    draft: writeDraft(draft, head(read.document, selected.length, operations.length, options.file)),
    tools: selected.map(({ name }) => name),
    gaps: gapsIn(plain).length,
    left: operations.length - selected.length,
  };
}

/** Everything at once is refused: hundreds of tools, half of them never meant for a model, are no catalogue. */
function unusableChoice(operations: readonly Operation[], options: Selection): string | null {
  const kinds = ['tag', 'path', 'operation', 'select'] as const;
  if (kinds.every((kind) => (options[kind] ?? []).length === 0)) return 'nothing was chosen, and a whole document is not imported at once';
  const missed = unmatched(operations, options);
  if (missed.length > 0) {
    const known = operations.flatMap(({ name, id, path, tags }) => [name, path, ...tags, ...(id === null ? [] : [id])]);
    const shown = missed.map((glob) => {
      const meant = nearest(glob, known.slice(0, 5000));
      return `\`${glob}\`${meant === undefined ? '' : ` (did you mean \`${meant}\`?)`}`;
    });
    return `no operation matches ${shown.join(', ')}`;
  }
  return chosen(operations, options).length === 0 ? 'no operation meets all of what was asked for' : null;
}

function contract(root: JsonObject, selected: readonly Operation[], all: readonly Operation[], options: ImportOptions): Draft {
  const service = options.service ?? serviceName(root);
  const reads = readsByPlace(all);
  const budget = { left: maxSchemas };
  return {
    callgate: 1,
    service,
    upstream: upstreamDraft(root, service, selected),
    tools: Object.fromEntries(selected.map((operation) => [operation.name, importTool(root, operation, () => near(operation, reads), budget)])),
  };
}

function serviceName(root: JsonObject): string {
  const words = textOf(own(root['info'], 'title')).toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^[-0-9]+|-+$/g, '').slice(0, 40).replace(/-+$/, '');
  return words === '' ? 'service' : words;
}

/** Of all chosen operations together. */
const maxSchemas = 400_000;
const maxCandidates = 100;

/** The reads of a document by the first word of their path. */
function readsByPlace(operations: readonly Operation[]): Map<string, Operation[]> {
  const found = new Map<string, Operation[]>();
  for (const operation of operations) {
    if (operation.method !== 'GET') continue;
    const reads = found.get(firstWord(operation)) ?? [];
    if (reads.length < maxCandidates) reads.push(operation);
    found.set(firstWord(operation), reads);
  }
  return found;
}

/** Behind what all paths of a service may begin with. */
function firstWord({ path }: Operation): string {
  return path.split('/').find((segment) => segment !== '' && !/^\{|^(api|v\d+)$/.test(segment)) ?? '';
}

/** Reads on the same thing, the most alike first. */
function near(operation: Operation, reads: ReadonlyMap<string, readonly Operation[]>): Operation[] {
  const segments = operation.path.split('/');
  const shared = ({ path }: Operation): number => {
    const others = path.split('/');
    const different = segments.findIndex((segment, index) => segment !== others[index]);
    return different < 0 ? segments.length : different;
  };
  return (reads.get(firstWord(operation)) ?? [])
    .map((one) => ({ one, likeness: shared(one) }))
    .sort((a, b) => b.likeness - a.likeness || (a.one.name < b.one.name ? -1 : 1))
    .map(({ one }) => one);
}

function head(root: JsonObject, count: number, all: number, file: string): string {
  const info = objectOf(root['info']);
  const title = shortened(`${textOf(info['title'])} ${textOf(info['version'])}`, 150);
  return [
    `yaml-language-server: $schema=../schemas/contract.schema.json`,
    `A draft from ${clean(file).slice(0, 200)}${title === '' ? '' : ` (${title})`}: ${count} of ${all} operations.`,
    'Each text that begins with GAP is a question that the document does not answer. `callgate check` fails until all are answered.',
    'What no policy permits is denied: name Cedar files under `policies`.',
  ].join('\n');
}

function withoutComments(draft: Draft): Json {
  if (draft instanceof Commented) return withoutComments(draft.value);
  if (Array.isArray(draft)) return draft.map(withoutComments);
  if (typeof draft !== 'object' || draft === null) return draft;
  return Object.fromEntries(Object.entries(draft).map(([name, member]) => [name, withoutComments(member)]));
}
