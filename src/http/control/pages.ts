/** The documentation as HTML: no script, no asset from elsewhere, one style that the policy names by its hash. */
import { createHash } from 'node:crypto';
import { type Problem, type ProblemCode, problems } from '../../errors.js';
import type { JsonObject } from '../../model.js';
import { nextActionMeanings } from '../../next-actions.js';

const style = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid #8885; }
code { font-family: ui-monospace, monospace; font-size: .92em; }
dt { font-weight: 600; margin-top: 1rem; } dd { margin: 0; }
`;

const styleHash = createHash('sha256').update(style).digest('base64');

export const contentSecurityPolicy =
  `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

export function indexPage(openapi: JsonObject): string {
  return page('Callgate', `
<h1>Callgate</h1>
<p>The model proposes; Callgate decides, executes at most once, and can prove what happened. The whole API, with every
schema, is at <a href="/openapi.json">/openapi.json</a>.</p>
<h2>Paths</h2>
${table(['Listener', 'Method and path', 'What it does'], operationsOf(openapi))}
<h2>Next actions</h2>
<p>Every answer has a <code>next_action</code>: one of nine words that say what a model may do next.</p>
${table(['Word', 'Meaning'], Object.entries(nextActionMeanings).map(([word, meaning]) => [code(word), prose(meaning)]))}
<h2>Problems</h2>
<p>A refusal is an answer as a problem document (RFC 9457); its <code>type</code> is the path of one of these pages.</p>
${table(['Code', 'Status', 'Disposition', 'Next', 'What happened'], Object.entries<Problem>(problems).map(problemRow))}`);
}

export function problemPage(problemCode: ProblemCode): string {
  const problem: Problem = problems[problemCode];
  return page(`${problemCode}: ${problem.title}`, `
<p><a href="/docs">Callgate</a></p>
<h1>${code(problemCode)}</h1>
<p>${prose(problem.title)}.</p>
<dl>
<dt>Status</dt><dd>${problem.status}</dd>
<dt>Disposition</dt><dd>${code(problem.disposition)}</dd>
<dt>Next action</dt><dd>${code(problem.next)}: ${prose(nextActionMeanings[problem.next])}</dd>
<dt>Why</dt><dd>${prose(problem.why)}</dd>
<dt>How to mend it</dt><dd>${prose(problem.mend)}</dd>
</dl>`);
}

function problemRow([problemCode, problem]: [string, Problem]): string[] {
  const link = `<a href="/docs/problems/${problemCode}">${code(problemCode)}</a>`;
  return [link, String(problem.status), code(problem.disposition), code(problem.next), prose(problem.title)];
}

/** The table of paths comes from the document that a test holds against the routes, so it cannot drift from them. */
function operationsOf(openapi: JsonObject): string[][] {
  const paths = Object.entries((openapi['paths'] ?? {}) as Record<string, Record<string, { tags?: string[]; summary?: string }>>);
  return paths.flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => method === 'get' || method === 'post' || method === 'put')
      .map(([method, { tags, summary }]) => [escapeHtml(tags?.[0] ?? ''), code(`${method.toUpperCase()} ${path}`), prose(summary ?? '')]));
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(title)}</title><style>${style}</style></head>
<body>${body}
</body>
</html>
`;
}

function table(headings: string[], rows: string[][]): string {
  const cells = (tag: string, row: string[]): string => `<tr>${row.map((cell) => `<${tag}>${cell}</${tag}>`).join('')}</tr>`;
  return `<table><thead>${cells('th', headings)}</thead><tbody>\n${rows.map((row) => cells('td', row)).join('\n')}\n</tbody></table>`;
}

function code(text: string): string {
  return `<code>${escapeHtml(text)}</code>`;
}

/** Text of ours with `code` in backticks. */
function prose(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
