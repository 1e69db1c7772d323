/** Values that a model neither sees nor sends: from the credential, from the arguments, and from what the session did before. */
import type { Json } from '../model.js';
import { type CelType, celClass, celUnknown } from './cel-types.js';
import { type CompiledExpression, lastsIn, type Names } from './expressions.js';
import type { LastResult } from './plan.js';
import type { Path } from './pointer.js';
import type { References } from './references.js';
import type { Site } from './site.js';
import type { ToolEntry } from './tool-entry.js';

export interface CompiledBind {
  readonly bind: Record<string, CompiledExpression<Json>>;
  readonly bindLast: Record<string, CompiledExpression<Json>>;
  readonly lasts: readonly LastResult[];
  readonly type: CelType;
}

export function compileBind(entry: ToolEntry, references: References, site: Site, asked: Names): CompiledBind {
  const { source, path } = entry;
  const bind: CompiledBind['bind'] = {};
  const bindLast: CompiledBind['bindLast'] = {};
  const lasts = new Map<string, LastResult>();
  const fields = new Map<string, CelType>();
  for (const [member, value] of Object.entries(source.bind ?? {})) {
    const place = [...path, 'bind', member];
    const results: Record<string, CelType> = {};
    for (const named of typeof value === 'string' ? lastsIn(value) : []) {
      const target = references.last(entry, named, place);
      results[named.name] = target?.resultType ?? celUnknown;
      lasts.set(named.name, { name: named.name, tool: named.tool, sameEntity: target?.source.entity !== undefined && source.entity !== undefined });
    }
    const late = Object.keys(results).length > 0;
    const names = late ? asked.with(results) : asked;
    const expression = site.member(place, value, names);
    if (!late) beforeLookUp(site, place, expression);
    (late ? bindLast : bind)[member] = expression;
    fields.set(member, names.typeNamed(expression.type));
  }
  return { bind, bindLast, lasts: [...lasts.values()], type: celClass('bound', fields) };
}

/** What tells calls apart is worked out before the ledger is asked what the session has been told. */
export function beforeLookUp(site: Site, path: Path, { paths }: CompiledExpression<unknown>): void {
  if (paths.has('session.untrusted')) site.findings.value(site.file, path, 'CG101', '`session.untrusted` is not known yet when this is worked out');
}
