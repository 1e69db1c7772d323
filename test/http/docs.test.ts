import { describe, expect, it } from 'vitest';
import { type Problem, problems } from '../../src/errors.js';
import { renderErrorsMarkdown } from '../../src/http/control/errors-markdown.js';
import { nextActions } from '../../src/model.js';
import { listen } from './listeners.js';

const textOf = (html: string): string =>
  html.replace(/<[^>]+>/g, '').replace(/&#(\d+);/g, (_match, point: string) => String.fromCharCode(Number(point)));
const plain = (text: string): string => text.replaceAll('`', '');

describe('every problem is explained where its `type` points', () => {
  it.each(Object.entries<Problem>(problems))('/docs/problems/%s', async (code, problem) => {
    const { control } = await listen();
    const response = await fetch(`${control}/docs/problems/${code}`);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const text = textOf(await response.text());
    for (const part of [code, problem.title, String(problem.status), problem.disposition, problem.next, plain(problem.why), plain(problem.mend)]) {
      expect(text).toContain(part);
    }
  });

  it('a code that is none is 404 and not repeated', async () => {
    const { control } = await listen();
    const response = await fetch(`${control}/docs/problems/CANARY`);
    expect(response.status).toBe(404);
    expect(await response.text()).not.toContain('CANARY');
  });
});

describe('/docs', () => {
  it('lists every path, every problem and the nine words', async () => {
    const { control } = await listen();
    const html = await (await fetch(`${control}/docs`)).text();
    for (const code of Object.keys(problems)) expect(html).toContain(`href="/docs/problems/${code}"`);
    for (const word of nextActions) expect(html).toContain(`<code>${word}</code>`);
    for (const path of ['POST /v1/calls', 'GET /v1/receipts', 'GET /readyz']) expect(html).toContain(`<code>${path}</code>`);
  });

  it('allows no script and nothing from elsewhere, and its one style is the one that the policy names', async () => {
    const { control } = await listen();
    const response = await fetch(`${control}/docs`);
    const policy = response.headers.get('content-security-policy') ?? '';
    const html = await response.text();
    const style = /<style>([\s\S]*?)<\/style>/.exec(html)?.[1] ?? '';
    const digest = Buffer.from(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(style))).toString('base64');
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain(`style-src 'sha256-${digest}'`);
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(html).not.toMatch(/<script|https?:\/\/|style=|\son\w+=/);
  });
});

describe('docs/errors.md', () => {
  it('is what src/errors.ts says; run with -u after a change there', async () => {
    await expect(renderErrorsMarkdown()).toMatchFileSnapshot('../../docs/errors.md');
  });
});
