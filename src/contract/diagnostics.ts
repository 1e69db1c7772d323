/**
 * Every code that the compiler can report, with the way to mend it. Families: CG0 reading and shape, CG1 preconditions
 * resolve, CG2 effects are named, CG3 errors map, CG4 ambiguity resolves, CG5 authority is mechanical, CG6 lints,
 * CG9 what an import left open. Codes are stable.
 */
const help = {
  CG001: 'Correct the YAML at this place. Texts with `: `, `#` or a leading `*`, `&`, `{` need quotes.',
  CG002: 'Keep one of the two members. Readers disagree on which of two equal keys wins, so neither is taken.',
  CG003:
    'Write the value out. Aliases, nesting and size are bounded, and numbers must be finite and, when they are integers, within ±9007199254740991.',
  CG004: 'Use one of the members that the contract language has; see docs/contracts.md.',
  CG005: 'Add the member; see docs/contracts.md for its form.',
  CG006: 'Give the member the form that docs/contracts.md shows.',
  CG007:
    'Move it to `upstream.base_url`. Nowhere else is the environment read, so that a source has one digest on every machine.',
  CG008: 'Name a readable file inside the contracts folder, relative to this contract.',
  CG009: 'Set the variable, or give a default: `${NAME:-http://127.0.0.1:8090}`.',
  CG010: 'Give an absolute http or https URL without credentials, query or fragment.',
  CG011: 'Put at least one `.yaml`, `.yml` or `.json` contract into the folder.',
  CG101: 'Use a name that is in scope here and a member that its schema declares; operands must have fitting types.',
  CG102: 'Change the expression so that it gives the type that this place needs.',
  CG103: 'Correct the CEL syntax.',
  CG104:
    'Use another construct. `dyn` switches type checking off, and a pattern for `matches` must be a literal of the linear-time RE2 syntax.',
  CG105: 'Split the expression with `let`, or simplify it. Expressions are bounded so that a check cannot be expensive.',
  CG106: 'Name a tool that exists in this catalogue.',
  CG107: 'Name an entity that this file declares under `entities`.',
  CG108: 'Use a tool with `effect: none`. Observing and reading back must not change anything.',
  CG109: 'Give the tool exactly the arguments that its schema asks for, each of the right type.',
  CG110:
    'Make it the `entity` of the tool or list it under `touches`: a guard key then keeps it still between check and write.',
  CG112: 'Close every `{` with `}`, write literal braces as `{{` and `}}`, and let each part be text, a number or a boolean.',
  CG113:
    'Bound the list by `maxItems` in its schema, or add `max` to `for_each` (at most 100). Each element is a read before every call, ' +
    'and a call whose list is longer is refused.',
  CG114: 'Let a member whose name begins with `?` be one argument or bound value and nothing else, such as `?note: args.note`.',
  CG115: 'Let one of the ids be told from the call itself: by `args`, `bound`, `principal`, `subject` or `session`.',
  CG116: 'Let the tool observe it under that name, list it under `touches`, or tell the id from what this tool knows.',
  CG117:
    'Use `last(TOOL).MEMBER` in `bind`, with another tool that writes. What a read has shown once is stale by now: observe it instead. ' +
    'A read that is made on behalf of other calls belongs to no session, so it cannot bind what a session did.',
  CG118: 'Let both tools act on the same entity, or one of them on none. On different ones it would be anybody’s guess which result is meant.',
  CG201: 'Add `effects.creates` or `effects.changes`: say what a successful call leaves behind, or nobody can tell that it happened.',
  CG202: 'Add `effects.never` with what must stay as it was (an empty list says: nothing was thought of, and is accepted).',
  CG203: 'Remove it, or declare `effect: write`. A read changes nothing.',
  CG204: 'Use POST, PUT, PATCH or DELETE. Caches, proxies and crawlers repeat a GET freely.',
  CG205: 'Add a `body` to a POST, PUT or PATCH only; a GET or DELETE with a body is dropped by many servers.',
  CG206: 'Remove `durability`, or keep it on reads. What was sent and not recorded could be sent again.',
  CG301:
    'Add `next`: one of ask, refresh, repair, wait, verify, retry, abandon, escalate, continue. The model needs to be told what it may do.',
  CG302: 'Use `outcome: not_committed` where it is proven that nothing happened, honour idempotency keys, or choose another next action.',
  CG303: 'Map an error to `outcome: rejected` or `not_committed` under `errors`. Members of an answer that no rule recognises are never shown.',
  CG401:
    'After a time-out nobody could tell whether it happened. Add `readback` (a read tool that finds the effect by operation.id), ' +
    'or `idempotency: { honoured: true, window: 24h }` if the service keeps keys, or say `on_unknown: review` out loud.',
  CG402: 'Add `settle_after`: how long after the last byte the service may still commit. Before that, absence is no evidence.',
  CG403: 'Add an `approval` rule. An irreversible effect whose outcome only a person can settle needs a person before it as well.',
  CG405: 'Add `window`: how long the service remembers a key. A re-send after it would be a second effect.',
  CG406: 'Let `args` or `committed` read `operation.id`, and send that id upstream. A natural key alone finds last week’s effect.',
  CG407: 'Add `readback`, which `async.poll` reads, or remove `async`.',
  CG408: 'Give `readback.result` every member that the `result` schema of this tool requires, spelt in the same way.',
  CG409: 'Add `readback.result` with the list that `partial.items` reads, or a lost answer leaves every item in doubt.',
  CG410: 'Add `upstream.callbacks: { secret_from: env:NAME }`. An event whose signature nobody checks could be written by anybody.',
  CG411: 'Read `body` or `headers` of the event. An expression that reads nothing of it would be true of every event.',
  CG412: 'Name another tool that writes: an undo is an effect of its own.',
  CG501:
    'Bind the value, compare it in a precondition with something observed or bound, or compare `context.args` in a policy with something ' +
    'that is not an argument: in a `forbid`, or in every `permit` of the tool on its entity.',
  CG502: 'Remove the name from `args` or from `bind`. A bound value must never come from the model.',
  CG503: 'Correct the Cedar policy. A policy that cannot be read or that fails denies every call, so it is not served.',
  CG504:
    'Use a name that the contracts have: an action is a tool, a resource is `Tool` or an entity, its attributes are what its observation gives, ' +
    'and `context` has `purpose`, `untrusted` and `args`. A policy about something that is never asked protects nothing.',
  CG505: 'Compare values of one type. A policy that fails denies every call that it is asked about.',
  CG506: 'Ask first: `resource has note && resource.note == "x"`. A value that may be absent makes the policy fail, and what fails denies.',
  CG507: 'Correct its head or its conditions, or remove it. A `forbid` that can never apply forbids nothing, and reads as if it did.',
  CG508:
    'Decide it by a precondition in the contract, or describe the value so that Cedar has a type for it: one type, named members, items that ' +
    'are described (docs/policies.md).',
  CG601: 'Rename one of them. A tool is known by its name over the whole catalogue.',
  CG603:
    'Schemas are closed at every level. Name the members, or give them a schema: `additionalProperties: { type: string }`.',
  CG604: 'Use a keyword that the gateway can enforce.',
  CG605: 'Correct the schema. It must be valid JSON Schema 2020-12.',
  CG606:
    'Rewrite the pattern without look-around or back-references. It runs on a linear-time engine, so that no input can stall the gateway.',
  CG607: 'Correct the example or the schema: an example teaches the model, so it has to be valid.',
  CG608: 'Use a semantic version such as `2.0.0`.',
  CG609: 'Use a state that is listed under `states`.',
  CG610: 'Let a transition lead to it, list it under `initial` or `external`, or remove it.',
  CG611: 'List the tool in `transitions` under at least one state; an unlisted action is illegal in every state.',
  CG612: 'Name a writing tool that has this entity.',
  CG613: 'Choose another name; this one already stands for something in expressions.',
  CG614: 'Remove the header. The gateway or the connection sets it.',
  CG615: 'Name arguments that the schema of `args` has.',
  CG616: 'Add the bound. What a model may send without end is only bounded by the size of a request, and loops over it cost accordingly.',
  CG617: 'List it under `required` and give it no `default`, so that a forgotten argument is refused instead of deciding.',
  CG618:
    'Show a call that the schema or a relation refuses, or add the relation that refuses this one. What only the state of the world forbids ' +
    'belongs in `not_when`.',
  CG619:
    'Give `initial` exactly one state, and no `external`. What the gateway keeps begins in one state and is moved by nothing but the ' +
    'actions of its table.',
  CG901: 'Find out what the comment above it asks, and write the answer in place of the `GAP` text. The document that was imported does not say it.',
} as const;

export type DiagnosticCode = keyof typeof help;
export const diagnosticHelp: Readonly<Record<DiagnosticCode, string>> = help;

export type Severity = 'error' | 'warning';
const warnings: ReadonlySet<DiagnosticCode> = new Set<DiagnosticCode>(['CG616', 'CG617']);

export function severityOf(code: DiagnosticCode): Severity {
  return warnings.has(code) ? 'warning' : 'error';
}

/** Line and column count from 1. `file` is relative to the contracts folder. */
export interface Diagnostic {
  file: string;
  line: number;
  column: number;
  code: DiagnosticCode;
  severity: Severity;
  message: string;
  help: string;
}

export interface Position {
  line: number;
  column: number;
}

export function diagnostic(file: string, at: Position, code: DiagnosticCode, message: string): Diagnostic {
  return { file, line: at.line, column: at.column, code, severity: severityOf(code), message, help: help[code] };
}

/** In the order of the text; the same finding only once. */
export function sorted(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const seen = new Map(diagnostics.map((found) => [[found.file, found.line, found.column, found.code, found.message].join('\n'), found]));
  return [...seen.values()].sort(
    (a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : 0) || a.line - b.line || a.column - b.column || (a.code < b.code ? -1 : 1),
  );
}

/** For a terminal: place, message, source line with a caret, help. @param readText gives a file's text by its diagnostic name. */
export function formatDiagnostics(diagnostics: readonly Diagnostic[], readText: (file: string) => string | undefined): string {
  const texts = new Map<string, readonly string[]>();
  const linesOf = (file: string): readonly string[] => {
    const lines = texts.get(file) ?? readText(file)?.split(/\r?\n/) ?? [];
    texts.set(file, lines);
    return lines;
  };
  const blocks = sorted(diagnostics).map((found) => {
    const head = `${found.file}:${found.line}:${found.column}: ${found.severity} ${found.code}: ${found.message}`;
    const source = linesOf(found.file)[found.line - 1];
    const lines = [head];
    if (source !== undefined) lines.push(...excerpt(source, found.line, found.column));
    return [...lines, `  help: ${found.help}`].join('\n');
  });
  const counts = (['error', 'warning'] as const).flatMap((severity) => counted(diagnostics, severity));
  return diagnostics.length === 0 ? '' : `${blocks.join('\n\n')}\n\n${counts.join(' and ')}\n`;
}

function counted(diagnostics: readonly Diagnostic[], severity: Severity): string[] {
  const count = diagnostics.filter((found) => found.severity === severity).length;
  return count === 0 ? [] : [`${count} ${severity}${count === 1 ? '' : 's'}`];
}

const excerptColumns = 120;

function excerpt(source: string, line: number, column: number): string[] {
  const gutter = `  ${line} | `;
  const start = Math.max(0, column - 1 - Math.floor(excerptColumns * 0.75));
  const shown = source.slice(start, start + excerptColumns).replaceAll('\t', ' ');
  return [gutter + shown, `${' '.repeat(gutter.length - 2)}| ${' '.repeat(column - 1 - start)}^`];
}
