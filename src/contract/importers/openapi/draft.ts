/** A contract as YAML with comments: what a person goes on with. */
import { Document, Pair, Scalar, YAMLMap, YAMLSeq, type Node } from 'yaml';
import type { Json } from '../../../model.js';
import { isGap } from '../../gaps.js';

/** A value with the comment that stands above it. */
export class Commented {
  constructor(
    readonly value: Draft,
    readonly comment: string,
  ) {}
}

export type Draft = Json | Commented | Draft[] | { [name: string]: Draft };

export function commented(comment: string, value: Draft): Commented {
  return new Commented(value, comment);
}

/** Above each question that nothing around it explains. */
export function explained(draft: Draft): Draft {
  if (draft instanceof Commented) return draft;
  if (typeof draft === 'string') return isGap(draft) ? commented('The document does not say it. See what the service really takes or answers here, or ask its owner.', draft) : draft;
  if (Array.isArray(draft)) return draft.map(explained);
  if (typeof draft !== 'object' || draft === null) return draft;
  return Object.fromEntries(Object.entries(draft).map(([name, member]) => [name, explained(member)]));
}

const width = 120;
/** A map or list that is no longer than this when it is written in one line, is. */
const maxInline = 100;

export function writeDraft(draft: Draft, head: string): string {
  const document = new Document(node(draft, 0));
  document.commentBefore = wrapped(head, 0);
  return document.toString({ lineWidth: width, flowCollectionPadding: true });
}

function node(draft: Draft, depth: number): Node {
  if (draft instanceof Commented) return node(draft.value, depth);
  if (Array.isArray(draft)) {
    const list = new YAMLSeq();
    list.items = draft.map((item) => withComment(node(item, depth + 1), item, depth));
    list.flow = isShort(draft);
    return list;
  }
  if (typeof draft === 'object' && draft !== null) {
    const map = new YAMLMap();
    map.items = Object.entries(draft).map(([name, member]) => new Pair(withComment(new Scalar(name), member, depth), node(member, depth + 1)));
    map.flow = isShort(draft);
    return map;
  }
  return new Scalar(draft);
}

function withComment<T extends Node>(written: T, draft: Draft, depth: number): T {
  if (draft instanceof Commented) written.commentBefore = wrapped(draft.comment, depth);
  return written;
}

function isShort(draft: Draft): boolean {
  return spare(draft, maxInline) >= 0;
}

/** What is left of a line when this is written in it; negative when it does not fit. A comment needs a line of its own. */
function spare(draft: Draft, room: number): number {
  if (draft instanceof Commented || room < 0) return -1;
  if (typeof draft !== 'object' || draft === null) return room - JSON.stringify(draft).length - 2;
  let left = room;
  for (const [name, member] of Object.entries(draft)) {
    left = spare(member, left - (Array.isArray(draft) ? 2 : name.length + 4));
    if (left < 0) return -1;
  }
  return left;
}

/** As the writer wants it: each line after its `#`. Line breaks of the text stay. */
function wrapped(text: string, depth: number): string {
  const most = Math.max(60, width - 2 * depth - 2);
  return text
    .split('\n')
    .flatMap((line) => lines(line.split(' '), most))
    .map((line) => ` ${line}`)
    .join('\n');
}

function lines(words: readonly string[], most: number): string[] {
  const found = [''];
  for (const word of words) {
    const last = found.at(-1)!;
    if (last !== '' && last.length + word.length + 1 > most) found.push(word);
    else found[found.length - 1] = last === '' ? word : `${last} ${word}`;
  }
  return found;
}
