/** A comparison for a person. */
import type { Json } from '../../model.js';
import { canonicalText } from '../../canonical.js';
import type { CatalogueDiff, SharedDiff, ToolDiff } from './diff.js';
import type { FieldChange } from './fields.js';

export function formatDiff({ impact, tools, services, policies }: CatalogueDiff): string {
  if (impact === null) return 'nothing has changed\n';
  const blocks = [
    ...tools.map((tool) => [headline(tool), ...tool.fields.map(line)]),
    ...services.map((service) => [sharedHeadline('service', service), ...service.fields.map(line)]),
    ...policies.map((policy) => [sharedHeadline('policy', policy)]),
  ];
  const refused = tools.filter((tool) => tool.refused).map((tool) => `\`${tool.tool}\``);
  const end = refused.length === 0 ? `${impact}` : `refused: the version of ${refused.join(', ')} does not say what has changed`;
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n\n${end}\n`;
}

function headline({ tool, change, impact, version, must_move: part, refused, publish_as: publishAs }: ToolDiff): string {
  if (change !== 'changed') return `${tool} ${version.now ?? version.old}: ${change}, ${impact}`;
  const moved = version.old === version.now ? `${version.old}, unchanged` : `${version.old} → ${version.now}`;
  if (part === null) return `${tool} ${moved}: only the version has moved`;
  return `${tool} ${moved}: ${impact}, ${part} must move${refused ? `. REFUSED: publish it as ${publishAs ?? 'a semantic version'} or later` : ''}`;
}

function sharedHeadline(kind: string, { name, change, impact }: SharedDiff): string {
  return `${kind} ${name}: ${change}, ${impact}`;
}

function line({ field, impact, old, now, schema }: FieldChange): string {
  const meaning = schema === undefined || schema === 'same' ? '' : ` (${schema === 'other' ? 'not comparable' : schema})`;
  return `  ${impact.padEnd(11)}  ${field}: ${shown(old)} → ${shown(now)}${meaning}`;
}

const longest = 300;

function shown(value: Json | undefined): string {
  if (value === undefined) return '(absent)';
  const text = canonicalText(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}
