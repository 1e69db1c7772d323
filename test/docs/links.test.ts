import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectFile } from '../../src/project.js';
import { anchors, page, pages, quoted } from './pages.js';

/** A reader who follows a link into nothing trusts no other line. */
describe('the pages', () => {
  it.each(pages.map(({ file }) => file))('%s links only to what exists, headings included', (file) => {
    const { prose } = page(file);
    for (const [, target = ''] of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^(https?|mailto):/.test(target)) continue;
      const [path = '', anchor] = target.split('#');
      const absolute = path === '' ? projectFile(file) : join(dirname(projectFile(file)), path);
      expect(existsSync(absolute), target).toBe(true);
      if (anchor !== undefined) expect(anchors(readFileSync(absolute, 'utf8')), target).toContain(anchor);
    }
  });

  it.each(pages.map(({ file }) => file))('%s names only files of the project that exist', (file) => {
    const own = /^(src|test|docs|examples|migrations|schemas|scripts|deploy|bench|bin|\.ci)\/[\w./-]+$/;
    // to be made by the reader, or by a build
    const others = /^(docs\/problems\/|migrations\/0002-)/;
    for (const name of quoted(page(file).prose).filter((text) => own.test(text) && !others.test(text))) expect(existsSync(projectFile(name)), name).toBe(true);
  });

  it('can all be reached from the README', () => {
    const reached = new Set<string>();
    const follow = (file: string): void => {
      if (reached.has(file) || !pages.some((one) => one.file === file)) return;
      reached.add(file);
      for (const [, target = ''] of page(file).prose.matchAll(/\]\(([^)#\s]+)/g)) follow(join(dirname(file), target));
    };
    follow('README.md');
    const own = pages.map(({ file }) => file).filter((file) => !file.startsWith('examples'));
    expect(own.filter((file) => !reached.has(file))).toEqual([]);
  });
});
