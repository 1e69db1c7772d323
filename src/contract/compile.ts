/** From a contracts folder, or from the source that the ledger kept, to the catalogue that the gateway runs. */
import type { JsonObject } from '../model.js';
import { checkEntities, checkTool } from './check.js';
import { compileTool, type Target } from './compile-tool.js';
import { digestOf, digestOfText } from '../canonical.js';
import { type ContractDefaults, standardDefaults } from './defaults.js';
import { defer } from './deferred-plan.js';
import { diagnostic, sorted, type Diagnostic } from './diagnostics.js';
import type { ContractDocument } from './document.js';
import { Findings } from './findings.js';
import { lintTool } from './lints.js';
import { checkPolicies } from './policies.js';
import { loadFolder } from './load.js';
import type { Catalogue, ToolPlan } from './plan.js';
import { entitiesOf, References, referredTools } from './references.js';
import { SchemaCompiler } from './schemas.js';
import { canonicalSource, readCanonicalSource, type ContractSource, type SourceFile } from './source.js';
import { readPolicies } from '../policy/read.js';
import { indexTools, type ToolEntry, type Tools, trustTools } from './tool-entry.js';
import { baseUrl, isGatewaysOwn, substitute, upstreamPlan, type Environment } from './upstream.js';

/** Diagnostics hold at least one error; what is no error does not stand in the way of a catalogue. */
export type CompileResult = { catalogue: Catalogue; warnings: Diagnostic[] } | { diagnostics: Diagnostic[] };

/** @param env where `${VAR}` of `upstream.base_url` is read now and credentials at each send; `process.env` as a rule. */
export function compileFolder(dir: string, env: Environment, defaults: ContractDefaults = standardDefaults): CompileResult {
  const { source, diagnostics } = loadFolder(dir);
  return compile(source, env, defaults, diagnostics);
}

/**
 * The same catalogue again, from `Catalogue.source` as it was stored. It was compiled before, so nothing is checked twice and each tool is
 * worked out when it is first used. What a later version of the language no longer admits is not refused here, since operations that began
 * under it have to end under it: an expression that does not compile any more fails when it is evaluated, and what fails is refused.
 */
export function compileSource(source: string, env: Environment, defaults: ContractDefaults = standardDefaults): CompileResult {
  const { files, policies } = readCanonicalSource(source);
  const findings = new Findings();
  const tools = trustTools(files, new SchemaCompiler());
  const references = new References(tools, new Findings());
  const targets = new Map(files.map((file) => [file, compileUpstream(file, file.document as unknown as ContractDocument, env, defaults, findings)]));
  for (const entry of tools.entries.values()) {
    defer(entry.plan, () => void compileTool(entry, references, targets.get(entry.file)!, digestTool(entry, tools)));
  }
  if (findings.list.length > 0) return { diagnostics: sorted(findings.list) };
  const plans = new Map<string, ToolPlan>([...tools.entries].map(([name, { plan }]) => [name, plan]));
  return { catalogue: catalogueOf(source, plans, policies), warnings: [] };
}

function compile(source: ContractSource, env: Environment, defaults: ContractDefaults, unread: readonly Diagnostic[]): CompileResult {
  const findings = new Findings();
  const tools = indexTools(source.files, new SchemaCompiler(), findings);
  const references = new References(tools, findings);
  const upstreams = new Map<SourceFile, Target>();
  for (const file of new Set([...tools.entries.values()].map((entry) => entry.file))) {
    const document = file.document as unknown as ContractDocument;
    checkEntities(file, document, tools, findings);
    upstreams.set(file, compileUpstream(file, document, env, defaults, findings));
  }
  const { policies, problems } = readPolicies(source.policies);
  for (const problem of problems) findings.list.push(diagnostic(problem.file, problem, 'CG503', problem.message));
  for (const entry of tools.entries.values()) {
    try {
      const compiled = compileTool(entry, references, upstreams.get(entry.file)!, digestTool(entry, tools));
      checkTool(entry, compiled, tools, problems.length > 0 ? null : policies, findings);
      lintTool(entry, findings);
    } catch (thrown) {
      if (!(thrown instanceof RangeError)) throw thrown;
      findings.key(entry.file, entry.path, 'CG003', `\`${entry.name}\` is nested too deeply to be compiled`);
    }
  }
  // What cannot be read is not known to policies either, and was reported.
  if (unread.length === 0 && tools.whole) checkPolicies(policies, tools, findings);
  const diagnostics = sorted([...unread, ...findings.list]);
  const failed = diagnostics.some(({ severity }) => severity === 'error');
  return failed ? { diagnostics } : { catalogue: assemble(source, tools), warnings: diagnostics };
}

function compileUpstream(file: SourceFile, document: ContractDocument, env: Environment, defaults: ContractDefaults, findings: Findings): Target {
  const { service, upstream } = document;
  let base = 'http://unusable.invalid';
  try {
    base = baseUrl(substitute(upstream.base_url, env));
  } catch (thrown) {
    const code = thrown instanceof RangeError ? 'CG009' : 'CG010';
    findings.value(file, ['upstream', 'base_url'], code, `the address of the service cannot be used: ${(thrown as Error).message}`);
  }
  const { auth, callbacks } = upstream;
  const secrets = [[['auth', 'value_from'], auth?.value_from], [['callbacks', 'secret_from'], callbacks?.secret_from], [['callbacks', 'previous_secret_from'], callbacks?.previous_secret_from]] as const;
  for (const [path, from] of secrets) {
    const name = from?.startsWith('env:') ? from.slice('env:'.length) : '';
    if (isGatewaysOwn(name)) findings.value(file, ['upstream', ...path], 'CG012', `the environment variable \`${name}\` is the gateway’s own`);
  }
  return { plan: upstreamPlan(service, upstream, base, defaults), base, defaults };
}

/** Over the governed source of the tool and of what it refers to, before the environment is read: the same on every machine. */
export function digestTool(entry: ToolEntry, tools: Tools): string {
  const reached = new Map<string, ToolEntry>();
  const follow = (name: string): void => {
    const found = tools.entries.get(name);
    if (!found || reached.has(name)) return;
    reached.set(name, found);
    referredTools(found).forEach(follow);
  };
  follow(entry.name);
  return digestOf({
    callgate: 1,
    tool: entry.name,
    reached: [...reached].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => governed(each)),
  });
}

function governed(entry: ToolEntry): JsonObject {
  const { name, document, source } = entry;
  return {
    name,
    service: document.service,
    upstream: document.upstream,
    entities: Object.fromEntries(entitiesOf(entry)),
    source,
  } as unknown as JsonObject;
}

function assemble(source: ContractSource, { entries }: Tools): Catalogue {
  const text = canonicalSource(source);
  const tools = new Map<string, ToolPlan>([...entries].map(([name, { plan }]) => [name, Object.freeze(plan)]));
  return catalogueOf(text, tools, source.policies);
}

function catalogueOf(source: string, tools: Catalogue['tools'], policies: Catalogue['policies']): Catalogue {
  return Object.freeze({ digest: digestOfText(source), tools, policies, source, tracksTrust: source.includes('untrusted') });
}
