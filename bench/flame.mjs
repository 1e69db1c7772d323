/**
 * node bench/flame.mjs PROFILE.cpuprofile OUT.svg [TITLE]
 *
 * Draws a CPU profile, as `npm run bench -- --profile FOLDER` leaves it, as a flame graph: one picture that any browser shows, callers below callees, width as time,
 * names and shares on pointing at them. Idle time, the start (five seconds) and what took less than a quarter of a per cent are left out.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const [width, rowHeight, letterWidth, leastShare, startUs] = [1200, 16, 7.2, 0.0025, 5_000_000];
const left = new Set(['(idle)', '(program)', '(root)']);
const colours = { gate: '#e8743b', ledger: '#945ecf', contract: '#19a979', policy: '#13a4b4', http: '#5899da', upstream: '#ed4a7b', other: '#e8c33b', packages: '#bf9f8f', node: '#c9ced6', '(garbage collector)': '#6c757d' };
const project = fileURLToPath(new URL('..', import.meta.url));

const [from, to, title = ''] = process.argv.slice(2);
if (!to) throw new Error('node bench/flame.mjs PROFILE.cpuprofile OUT.svg [TITLE]');
const root = mergedTree(JSON.parse(readFileSync(from, 'utf8')));
writeFileSync(to, picture(root, title));

/** Equal callees of one caller are one, wherever they were compiled. */
function mergedTree({ nodes, samples, timeDeltas }) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const own = new Map();
  let at = 0;
  for (const [n, id] of samples.entries()) {
    at += timeDeltas[n];
    if (at > startUs) own.set(id, (own.get(id) ?? 0) + Math.max(0, timeDeltas[n]));
  }
  const merge = (into, node) => {
    for (const child of (node.children ?? []).map((id) => byId.get(id))) {
      const { functionName, url } = child.callFrame;
      if (left.has(functionName)) continue;
      const name = functionName || '(anonymous)';
      const place = url.replace('file://', '').replace(project, '').replace(/^dist\//, '');
      const key = `${name} ${place}`;
      const at = into.children.get(key) ?? { name, place, us: 0, children: new Map() };
      into.children.set(key, at);
      merge(at, child);
      at.us += own.get(child.id) ?? 0;
    }
    return into;
  };
  return total(merge({ name: 'all', place: '', us: 0, children: new Map() }, nodes[0]));
}

function total(node) {
  node.all = node.us + [...node.children.values()].reduce((sum, child) => sum + total(child).all, 0);
  return node;
}

function picture(root, title) {
  const frames = [];
  const place = (node, x, depth) => {
    frames.push({ node, x, depth });
    for (const child of [...node.children.values()].sort((a, b) => b.all - a.all)) {
      if (child.all / root.all >= leastShare) place(child, x, depth + 1);
      x += child.all / root.all;
    }
  };
  place(root, 0, 0);
  const height = (Math.max(...frames.map(({ depth }) => depth)) + 2) * rowHeight + 24;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="monospace" font-size="11">`,
    `<rect width="${width}" height="${height}" fill="#fff"/><text x="4" y="14">${escaped(title)}</text>`,
    ...frames.map((frame) => drawn(frame, root, height)), '</svg>', '',
  ].join('\n');
}

function drawn({ node, x, depth }, root, height) {
  const [at, wide, y] = [x * width, (node.all / root.all) * width, height - (depth + 1) * rowHeight - 4];
  const share = `${((100 * node.all) / root.all).toFixed(1)} %`;
  const text = node.name.slice(0, Math.max(0, Math.floor((wide - 4) / letterWidth)));
  return `<g><title>${escaped(`${node.name}${node.place ? ` (${node.place})` : ''}: ${share}`)}</title>`
    + `<rect x="${at.toFixed(1)}" y="${y}" width="${Math.max(0.5, wide - 0.5).toFixed(1)}" height="${rowHeight - 1}" fill="${colourOf(node)}"/>`
    + `${text.length > 2 ? `<text x="${(at + 2).toFixed(1)}" y="${y + 11}">${escaped(text)}</text>` : ''}</g>`;
}

function colourOf({ name, place }) {
  if (colours[name]) return colours[name];
  if (place.includes('node_modules')) return colours.packages;
  const room = /^src\/(\w+)/.exec(place)?.[1];
  return room ? (colours[room] ?? colours.other) : colours.node;
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
