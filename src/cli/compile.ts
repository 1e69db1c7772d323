import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatDiagnostics } from '../contract/diagnostics.js';
import type { Catalogue } from '../contract/plan.js';
import { dialects } from '../contract/views/dialects.js';
import { evaluatorView } from '../contract/views/evaluator.js';
import { viewProblems } from '../contract/views/limits.js';
import { modelTool } from '../contract/views/model.js';
import { type DialectView, projectTools } from '../contract/views/project.js';
import { cedarSchema, policySchemaOf } from '../policy/schema.js';
import { compiledOrTold } from './check.js';
import { limitOption, readArgs, readLimits } from './usage.js';

/** `callgate compile`: the views of a contracts folder, their sizes, and 1 where a view is more than its provider takes. */
export async function compile(args: string[]): Promise<number> {
  const { positionals, values } = readArgs(args, { out: { type: 'string' }, limit: limitOption }, 1);
  const limits = readLimits(values.limit);
  const catalogue = compiledOrTold(positionals[0]);
  if (!catalogue) return 1;
  const tools = [...catalogue.tools.values()].map(modelTool);
  const views = dialects.map((dialect) => projectTools(tools, dialect, limits[dialect]?.tools));
  if (values.out !== undefined) writeViews(values.out, catalogue, views);
  console.log(report(views));
  const over = views.flatMap((view) => viewProblems(view, limits));
  if (over.length > 0) console.error(formatDiagnostics(over, () => undefined));
  return over.length > 0 ? 1 : 0;
}

function writeViews(folder: string, catalogue: Catalogue, views: readonly DialectView[]): void {
  const write = (file: string, value: unknown): void => writeFileSync(join(folder, file), `${JSON.stringify(value, null, 2)}\n`);
  mkdirSync(join(folder, 'model'), { recursive: true });
  const { digest } = catalogue;
  write('catalogue.json', {
    digest,
    tools: [...catalogue.tools.values()].map(({ name, version, digest: own, service, effect }) => ({
      name,
      version,
      digest: own,
      service,
      effect,
    })),
  });
  for (const view of views) write(join('model', `${view.dialect}.json`), { digest, ...view });
  write('evaluator.json', evaluatorView(catalogue));
  write('policies.cedarschema.json', cedarSchema(policySchemaOf(catalogue.tools.values()), 'either'));
  // Byte for byte what the digest is over, and what the gateway compiles again after a restart.
  writeFileSync(join(folder, 'source.json'), catalogue.source);
}

function report(views: readonly DialectView[]): string {
  const rows = views.map(({ dialect, projection: { tools, bytes, tokens, limit, dropped, excluded } }) => [
    dialect,
    String(tools),
    limit === null ? '-' : String(limit),
    String(bytes),
    String(tokens),
    String(dropped.length),
    String(excluded.length),
  ]);
  const all = [['view', 'tools', 'limit', 'bytes', 'tokens (est.)', 'said less', 'left out'], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const lines = all.map((row) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!))).join('  '),
  );
  const left = views.flatMap(({ dialect, projection }) =>
    projection.excluded.map(({ tool, pointer, why }) => `${dialect} leaves out \`${tool}\`: ${pointer || 'the tool'}: ${why}`),
  );
  return [...lines, ...left].join('\n');
}
