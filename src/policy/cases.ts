/**
 * Runs policy cases: who asks for what, on which resource, and what policy has to decide. It asks the questions that the gate asks, in its
 * order, so a case that holds here holds there. A case that could never come to policy (arguments that the schema refuses, an attribute that
 * nothing shows) is wrong, whatever it expects: it would prove nothing.
 */
import { EvaluationError, type ToolPlan } from '../contract/plan.js';
import type { SourceFile } from '../contract/source.js';
import type { JsonObject, Principal } from '../model.js';
import { type CaseFile, type CasePrincipal, type PolicyCase, readCaseFile, type Row } from './case-file.js';
import { type Asking, type PolicyDecision, type PolicyEngine, resourceQuestion, toolQuestion } from './decision.js';
import type { PolicySchema } from './schema.js';

export interface CaseResult {
  name: string;
  line: number;
  column: number;
  expected: 'allow' | 'deny' | null;
  /** Null: it could not be asked. */
  decided: 'allow' | 'deny' | null;
  /** Ids of the policies that decided it; of a denial by default there are none. */
  by: string[];
  /** What was asked last: whether the tool may be used at all, or on this resource. */
  question: 'tool' | 'resource' | null;
  /** Why the case does not hold. */
  problem: string | null;
}

export interface PolicySet { tools: ReadonlyMap<string, ToolPlan>; engine: PolicyEngine; schema: PolicySchema }

export function runCases(source: SourceFile, set: PolicySet): CaseResult[] {
  const file = readCaseFile(source);
  if (Array.isArray(file)) {
    return file.map(({ line, column, message }) => ({ name: source.file, line, column, ...unasked(null, message) }));
  }
  return file.cases.flatMap((one, n) => rowsOf(one).map(({ name, row, at }) => {
    const place = source.valuePosition(['cases', n, ...at]);
    return { name, ...place, ...run(file, one.tool, row, set) };
  }));
}

/** A case without a table is a table of one row. */
function rowsOf({ table, ...base }: PolicyCase): { name: string; row: Row; at: (string | number)[] }[] {
  if (!table) return [{ name: base.name, row: base, at: [] }];
  return table.map((row, n) => ({
    name: `${base.name}: ${row.name ?? `row ${n + 1}`}`, at: ['table', n],
    row: {
      ...base, ...row,
      ...(row.args && base.args ? { args: { ...base.args, ...row.args } } : {}),
      ...(row.resource && base.resource ? { resource: { ...base.resource, ...row.resource } } : {}),
    },
  }));
}

type Verdict = Omit<CaseResult, 'name' | 'line' | 'column'>;

function run(file: CaseFile, toolName: string, row: Row, { tools, engine, schema }: PolicySet): Verdict {
  const expected = row.expect ?? null;
  const tool = tools.get(toolName);
  if (!tool) return unasked(expected, `there is no tool \`${toolName}\``);
  const given = typeof row.principal === 'string' ? named(file, row.principal) : row.principal;
  if (!given) return unasked(expected, row.principal === undefined ? 'it does not say who asks: `principal`' : `there is no principal \`${String(row.principal)}\` under \`principals\``);
  if (!expected) return unasked(null, 'it does not say what is to be decided: `expect`');
  const asking: Asking = { principal: principalOf(given), subject: given.subject ?? '', purpose: row.purpose ?? '', untrusted: false };
  const problem = unaskable(tool, row, schema);
  return problem === null ? judged(expected, row.by, decide(engine, asking, tool, row)) : unasked(expected, problem);
}

function named({ principals = {} }: CaseFile, name: string): CasePrincipal | undefined {
  const found = Object.hasOwn(principals, name) ? principals[name] : undefined;
  return found && { id: name, ...found };
}

function principalOf({ tenant, id = 'somebody', roles, subject }: CasePrincipal): Principal {
  return { tenant, id, roles, subject: subject ?? null, purposes: [], tools: '*', grants: { assertSubject: false, ownKeys: false } };
}

/** Why no call like this ever comes to policy. */
function unaskable(tool: ToolPlan, { args, resource }: Row, schema: PolicySchema): string | null {
  const { entity } = tool;
  if (!entity) return resource ? `\`${tool.name}\` acts on no entity, so policy is never shown a resource` : wrongArguments(tool, args);
  if (resource === null) return null;
  if (resource === undefined) return `\`${tool.name}\` acts on ${entity.name}: say what was observed of it under \`resource\`, or \`resource: null\` to ask for the tool alone`;
  const shown = schema.entities.get(entity.name)?.members;
  const unknown = Object.keys(resource).find((name) => !shown?.has(name));
  if (unknown !== undefined) return `no policy is ever shown \`${unknown}\` of ${entity.name}; it has ${[...(shown?.keys() ?? [])].join(', ') || 'nothing'}`;
  return wrongArguments(tool, args ?? {});
}

function wrongArguments(tool: ToolPlan, args: Row['args']): string | null {
  if (!args) return null;
  const verdict = tool.checkArguments(args as JsonObject);
  if (verdict.ok) return null;
  const [first] = verdict.errors;
  return `a call with these arguments is refused before policy is asked: \`${first?.pointer || '/'}\` ${first?.message ?? ''}`;
}

interface Decided { decision: PolicyDecision; question: 'tool' | 'resource' }

/** As the gate does: the tool, the tool again once the session is known to be marked, the resource; the first that is denied is the answer. */
function decide(engine: PolicyEngine, asking: Asking, tool: ToolPlan, row: Row): Decided {
  const marked = { ...asking, untrusted: row.untrusted ?? false };
  const first = engine.decide(toolQuestion(asking, tool));
  const ofTool = first.allowed && row.untrusted ? engine.decide(toolQuestion(marked, tool)) : first;
  const { entity } = tool;
  if (!ofTool.allowed || !entity || !row.resource) return { decision: ofTool, question: 'tool' };
  const args = (row.args ?? {}) as JsonObject;
  const resource = { type: entity.name, id: row.resource_id ?? idOf(tool, asking, args), attributes: row.resource as JsonObject };
  return { decision: engine.decide(resourceQuestion(marked, tool.name, resource, args)), question: 'resource' };
}

/** Where an observation tells it there is none here; a case about a policy that names an id gives it as `resource_id`. */
function idOf({ entity }: ToolPlan, { principal, subject }: Asking, args: JsonObject): string {
  const scope = { args, bound: {}, principal: { id: principal.id, tenant: principal.tenant, subject: subject || null, roles: principal.roles }, subject: subject || null, session: { id: '' }, now: new Date() };
  try {
    return entity?.id.evaluate(scope) ?? '';
  } catch (error) {
    if (error instanceof EvaluationError) return '';
    throw error;
  }
}

function judged(expected: 'allow' | 'deny', by: readonly string[] | undefined, { decision, question }: Decided): Verdict {
  const decided = decision.allowed ? 'allow' : 'deny';
  const told = { expected, decided, by: [...decision.determining].sort(), question } as const;
  const [error] = decision.errors;
  if (error !== undefined) return { ...told, problem: `a policy could not be evaluated, which denies: ${error}` };
  const because = decision.determining.length > 0 ? `by ${told.by.join(', ')}` : 'since no policy permits it';
  if (decided !== expected) return { ...told, problem: `expected ${expected}, and it is ${decided === 'allow' ? 'allowed' : 'denied'} ${because} (asked for the ${question})` };
  const wanted = by && [...by].sort();
  if (wanted && wanted.join('\n') !== told.by.join('\n')) return { ...told, problem: `expected to be decided by ${wanted.join(', ') || 'no policy'}, and it is decided ${because}` };
  return { ...told, problem: null };
}

function unasked(expected: 'allow' | 'deny' | null, problem: string): Verdict {
  return { expected, decided: null, by: [], question: null, problem };
}
