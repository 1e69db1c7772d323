/** What the expressions of a tool can name, in the order in which it becomes known. */
import type { Json } from '../model.js';
import { type CompiledBind, compileBind } from './bind.js';
import { type CelType, celBool, celClass, celList, celString } from './cel-types.js';
import { inDependencyOrder } from './dependency-order.js';
import { compileEntities, type EntityScope } from './entities.js';
import { type CompiledExpression, Names, namesIn } from './expressions.js';
import { responseTypes } from './observations.js';
import type { ToolPlan } from './plan.js';
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
    'args bound principal subject session operation now status headers body result last cel google constructor prototype',
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
  readonly bound: CompiledBind;
  readonly entities: EntityScope;
  readonly lets: ToolPlan['lets'];
}

export function compileScope(entry: ToolEntry, references: References, site: Site): ToolScope {
  const who = { args: entry.argsType, principal: principalType, subject: celString, session: sessionType };
  const asked = Names.of(entry.source.bind ? who : { ...who, bound: nothingBound.type }, [operationType, ...references.answers(entry)]);
  const bound = entry.source.bind ? compileBind(entry, references, site, asked) : nothingBound;
  const entities = compileEntities(entry, references, site, entry.source.bind ? asked.with({ bound: bound.type }) : asked, bound);
  const { names: deciding, lets } = compileLets(entry, site, entities.names);
  const sending = deciding.with({ operation: operationType });
  return { deciding, sending, answered: sending.with({ ...responseTypes, body: entry.errorBody }), bound, entities, lets };
}

const nothingBound: CompiledBind = { bind: {}, bindLast: {}, lasts: [], type: celClass('bound', new Map()) };

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
