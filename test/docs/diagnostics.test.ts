import { expect, it } from 'vitest';
import { diagnosticHelp } from '../../src/contract/diagnostics.js';
import { projectFile } from '../../src/project.js';
import { diagnosticsPage } from './diagnostics-page.js';
import { anchors, page } from './pages.js';

it('docs/diagnostics.md: each code with what the compiler really says of an example', async () => {
  await expect(diagnosticsPage()).toMatchFileSnapshot(projectFile('docs', 'diagnostics.md'));
}, 120_000);

it('every diagnostic leads to its place on that page', () => {
  const known = anchors(page('docs/diagnostics.md').text);
  for (const help of Object.values(diagnosticHelp)) expect(known).toContain(/docs\/diagnostics\.md#(\w+)$/.exec(help)?.[1]);
});
