/** docs/errors.md, from the one table of problems. */
import { type Problem, problems } from '../../errors.js';
import { nextActionMeanings } from '../../next-actions.js';

/** A test holds the committed file against this text and rewrites it when run with `-u`. */
export function renderErrorsMarkdown(): string {
  const entries = Object.entries<Problem>(problems);
  const summary = entries.map(([code, { status, disposition, next, title }]) =>
    `| [\`${code}\`](#${code.toLowerCase()}) | ${status} | \`${disposition}\` | \`${next}\` | ${title} |`);
  const words = Object.entries(nextActionMeanings).map(([word, meaning]) => `| \`${word}\` | ${meaning} |`);
  return `<!-- Generated from src/errors.ts: npx vitest run test/http/docs.test.ts -u -->
# Problems

A refusal is the answer object as an RFC 9457 problem document (\`application/problem+json\`). Its \`code\` is stable, its
\`type\` is the path of a page that the control listener serves (\`/docs/problems/CODE\`), and its \`next_action\` says what a
model may do. A contract may put a code of its own in \`code\`, and another next action; \`type\` then still names the page
of the general problem. Every refusal whose next action is neither \`retry\` nor \`wait\` carries \`x-should-retry: false\`.

| next action | meaning |
|---|---|
${words.join('\n')}

| code | status | disposition | next | what happened |
|---|---|---|---|---|
${summary.join('\n')}
${entries.map(section).join('')}`;
}

function section([code, { status, disposition, next, title, why, mend }]: [string, Problem]): string {
  return `
## ${code}

**${title}.** Status ${status}, disposition \`${disposition}\`, next action \`${next}\`.

Why: ${why}

How to mend it: ${mend}
`;
}
