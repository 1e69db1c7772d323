/** The form of a file of policy cases (docs/policies.md, "Cases"). Shape alone; what a case names is looked up when it is run. */
import { type Static, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { Position } from '../contract/diagnostics.js';
import type { SourceFile } from '../contract/source.js';

const closed = { additionalProperties: false };
const object = Type.Record(Type.String(), Type.Unknown());
const role = Type.Union(['agent', 'application', 'reviewer', 'auditor', 'admin'].map((name) => Type.Literal(name as 'agent')));

const principal = Type.Object({
  tenant: Type.String(), roles: Type.Array(role), id: Type.Optional(Type.String({ minLength: 1 })), subject: Type.Optional(Type.String()),
}, closed);

/** What a row of a table may say anew. Arguments and attributes are laid over those of its case, member by member. */
const varied = {
  principal: Type.Optional(Type.Union([Type.String(), principal])),
  purpose: Type.Optional(Type.String()),
  untrusted: Type.Optional(Type.Boolean()),
  args: Type.Optional(object),
  resource: Type.Optional(Type.Union([object, Type.Null()])),
  resource_id: Type.Optional(Type.String()),
  expect: Type.Optional(Type.Union([Type.Literal('allow'), Type.Literal('deny')])),
  by: Type.Optional(Type.Array(Type.String())),
};
const row = Type.Object({ name: Type.Optional(Type.String({ minLength: 1 })), ...varied }, closed);
const policyCase = Type.Object({ name: Type.String({ minLength: 1 }), tool: Type.String({ minLength: 1 }), ...varied, table: Type.Optional(Type.Array(row, { minItems: 1 })) }, closed);
const file = Type.Object({
  callgate_policy_cases: Type.Literal(1),
  principals: Type.Optional(Type.Record(Type.String(), principal)),
  cases: Type.Array(policyCase, { minItems: 1 }),
}, closed);

export type CasePrincipal = Static<typeof principal>;
export type Row = Static<typeof row>;
export type PolicyCase = Static<typeof policyCase>;
export type CaseFile = Static<typeof file>;

export interface CaseFileProblem extends Position { message: string }

const compiled = TypeCompiler.Compile(file);

/** Everything that is wrong with the form of the file, each at its place. */
export function readCaseFile({ document, valuePosition }: SourceFile): CaseFile | CaseFileProblem[] {
  if (compiled.Check(document)) return document;
  const problems = [...compiled.Errors(document)].map(({ path, message }) => ({
    ...valuePosition(pathOf(path)), message: `${path === '' ? 'the file' : `\`${path.slice(1).replaceAll('/', '.')}\``}: ${message}`,
  }));
  return problems.filter(({ line, column }, n) => problems.findIndex((other) => other.line === line && other.column === column) === n);
}

function pathOf(pointer: string): (string | number)[] {
  return pointer.split('/').slice(1).map((name) => (/^\d+$/.test(name) ? Number(name) : name.replaceAll('~1', '/').replaceAll('~0', '~')));
}
