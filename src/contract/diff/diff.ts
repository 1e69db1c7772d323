/** Two catalogues compared: what changes for those who call the tools, and whether the versions say so. */
import type { Json, JsonObject } from '../../model.js';
import type { Diagnostic } from '../diagnostics.js';
import { acts, type ContractDocument } from '../document.js';
import { checkShape } from '../shape.js';
import type { ContractSource } from '../source.js';
import { type Declared, differences, type FieldChange, type Impact, toolChanges } from './fields.js';
import { covers, movedPart, nextVersion, type Part } from './version.js';

export interface ToolDiff {
  tool: string;
  change: 'added' | 'removed' | 'changed';
  impact: Impact;
  version: { old?: string; now?: string };
  /** The part of the version that has to move; null where there is no version to move, or no governed field that has changed. */
  must_move: Part | null;
  /** True when it has not. */
  refused: boolean;
  /** The lowest version with which this may be published. */
  publish_as: string | null;
  fields: FieldChange[];
}

/** What has no version of its own: how services are reached, and the policies. */
export interface SharedDiff {
  name: string;
  change: 'added' | 'removed' | 'changed';
  impact: Impact;
  fields: FieldChange[];
}

export interface CatalogueDiff {
  /** The heaviest of all; null when nothing has changed. */
  impact: Impact | null;
  refused: boolean;
  tools: ToolDiff[];
  services: SharedDiff[];
  policies: SharedDiff[];
}

const parts: Record<Impact, Part> = { breaking: 'major', behavioural: 'minor', compatible: 'patch' };
const weights: readonly Impact[] = ['compatible', 'behavioural', 'breaking'];

/** Everything about a source because of which it cannot be compared: its shape. That it compiles is not asked for. */
export function comparisonProblems({ files }: ContractSource): Diagnostic[] {
  return files.flatMap((file) => checkShape(file).diagnostics);
}

/** @param old @param now without `comparisonProblems` */
export function diffSources(old: ContractSource, now: ContractSource): CatalogueDiff {
  const tools = pairs(declared(old), declared(now)).flatMap(([, before, after]) => toolDiff(before, after) ?? []);
  const services = sharedDiffs(serviceTexts(old), serviceTexts(now));
  const texts = ({ policies }: ContractSource): Map<string, Json> => new Map(policies.map(({ file, text }) => [file, text]));
  const policies = sharedDiffs(texts(old), texts(now));
  const impact = heaviest([...tools, ...services, ...policies].map((each) => each.impact));
  return { impact, refused: tools.some(({ refused }) => refused), tools, services, policies };
}

function declared({ files }: ContractSource): Map<string, Declared> {
  const documents = files.map((file) => file.document as unknown as ContractDocument);
  return new Map(
    documents.flatMap((document) => Object.entries(document.tools).map(([name, source]) => [name, { name, source, document }] as const)),
  );
}

function toolDiff(old: Declared | undefined, now: Declared | undefined): ToolDiff | null {
  const tool = (now ?? old)!.name;
  const version = { ...(old ? { old: old.source.version } : {}), ...(now ? { now: now.source.version } : {}) };
  if (!old || !now) {
    const change = now ? 'added' : 'removed';
    return { tool, change, impact: now ? 'compatible' : 'breaking', version, must_move: null, refused: false, publish_as: null, fields: [] };
  }
  const fields = toolChanges(old, now);
  if (fields.length === 0 && version.old === version.now) return null;
  const impact = heaviest(fields.map((field) => field.impact)) ?? 'compatible';
  const needed = fields.length === 0 ? null : parts[impact];
  const refused = needed !== null && !covers(movedPart(old.source.version, now.source.version), needed);
  const publishAs = needed === null ? null : nextVersion(old.source.version, needed);
  return { tool, change: 'changed', impact, version, must_move: needed, refused, publish_as: publishAs, fields };
}

/** By service, and by file as well where several files speak of one service; with the entities that no tool is governed by. */
function serviceTexts({ files }: ContractSource): Map<string, Json> {
  const count = new Map<string, number>();
  for (const { document } of files) {
    const { service } = document as unknown as ContractDocument;
    count.set(service, (count.get(service) ?? 0) + 1);
  }
  return new Map(
    files.map(({ file, document: json }) => {
      const document = json as unknown as ContractDocument;
      const { service, upstream, policies } = document;
      const text = { upstream, ...(policies === undefined ? {} : { policies }), entities: unusedEntities(document) } as unknown as JsonObject;
      return [count.get(service) === 1 ? service : `${service} (${file})`, text];
    }),
  );
}

function unusedEntities({ entities = {}, tools }: ContractDocument): JsonObject {
  const used = (name: string): boolean => Object.values(tools).some((tool) => acts(tool, name)) || Object.hasOwn(tools, entities[name]!.observe?.tool ?? '');
  return Object.fromEntries(Object.entries(entities).filter(([name]) => !used(name))) as unknown as JsonObject;
}

function sharedDiffs(old: Map<string, Json>, now: Map<string, Json>): SharedDiff[] {
  return pairs(old, now).flatMap(([name, before, after]): SharedDiff[] => {
    if (before === undefined || after === undefined)
      return [{ name, change: after === undefined ? 'removed' : 'added', impact: 'behavioural', fields: [] }];
    const fields: FieldChange[] = [];
    differences([], before, after, fields);
    const impact = heaviest(fields.map((field) => field.impact));
    return impact === null ? [] : [{ name, change: 'changed', impact, fields }];
  });
}

function pairs<T>(old: Map<string, T>, now: Map<string, T>): [string, T | undefined, T | undefined][] {
  return [...new Set([...old.keys(), ...now.keys()])].sort().map((name) => [name, old.get(name), now.get(name)]);
}

function heaviest(impacts: readonly Impact[]): Impact | null {
  return impacts.length === 0 ? null : weights[Math.max(...impacts.map((impact) => weights.indexOf(impact)))]!;
}
