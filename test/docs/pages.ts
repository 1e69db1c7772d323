/** The Markdown pages of the project, and what they say. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectFile } from '../../src/project.js';

export interface Page { file: string; text: string; /** Without fenced code. */ prose: string }

const fence = /^```(\w*)\n([\s\S]*?)^```$/gm;

export const pages: readonly Page[] = [
  ...markdownIn('', false), ...markdownIn('docs', true), ...markdownIn('examples', true),
].map((file) => {
  const text = readFileSync(projectFile(file), 'utf8');
  return { file, text, prose: text.replaceAll(fence, '') };
});

function markdownIn(folder: string, recursive: boolean): string[] {
  return readdirSync(projectFile(folder), { recursive, encoding: 'utf8' }).filter((name) => name.endsWith('.md')).map((name) => join(folder, name)).sort();
}

export function page(file: string): Page {
  const found = pages.find((one) => one.file === file);
  if (!found) throw new Error(`there is no page ${file}`);
  return found;
}

/** Fenced blocks of one language. */
export function blocks(text: string, language: string): string[] {
  return [...text.matchAll(fence)].filter((match) => match[1] === language).map((match) => match[2] ?? '');
}

/** What stands in backticks outside of fenced code. */
export function quoted(prose: string): string[] {
  return [...prose.matchAll(/`([^`\n]+)`/g)].map((match) => match[1] as string);
}

/** The anchors that GitHub gives a page's headings. */
export function anchors(text: string): Set<string> {
  return new Set([...text.replaceAll(fence, '').matchAll(/^#+ +(.*)$/gm)].map((match) =>
    (match[1] as string).toLowerCase().replaceAll(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')));
}
