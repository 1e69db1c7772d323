/** An export of one tenant as lines of NDJSON, page after page, so that it needs no more memory than one of them. */
import type { KeyRing, PublishedKey } from './keys.js';
import { type End, endText, type ExportLine } from './lines.js';
import { origin } from './link.js';
import type { ChainReader } from './sealer.js';

const atOnce = 100;

export interface Exporter {
  keys(): { keys: PublishedKey[] };
  /** Everything of that tenant after a sequence, and a checkpoint on it; the last piece ends the export. */
  lines(tenant: string, after: number): AsyncIterable<string>;
}

export function openExporter(reader: ChainReader, keys: KeyRing | null, checkpointMs: number): Exporter {
  return {
    keys: () => ({ keys: keys?.published ?? [] }),
    async *lines(tenant, after) {
      let head = { ...origin, sequence: after };
      let signed = after - 1;
      for (;;) {
        const { lines, done } = await reader.page(tenant, head.sequence, atOnce);
        for (const line of lines) head = headAfter(line) ?? head;
        const fresh = lines.filter((line) => line.type !== 'checkpoint' || line.checkpoint.sequence > signed);
        signed = head.sequence; // the next page begins with a checkpoint on it again
        yield text(fresh);
        if (done) break;
      }
      if (head.sequence === after && after > 0) head.link = await linkAt(reader, tenant, after);
      yield text([endOf(tenant, head)]);
    },
  };

  function endOf(tenant: string, head: { sequence: number; link: string }): ExportLine {
    const now = new Date();
    const signer = keys?.signerAt(now) ?? null;
    const end: End = { checkpoint_interval_ms: checkpointMs, exported_at: now.toISOString(), key: signer?.key ?? null, link: head.link, sequence: head.sequence, tenant };
    return { type: 'end', end, signature: signer?.sign(endText(end)) ?? null };
  }
}

/** Where there was nothing after it. */
async function linkAt(reader: ChainReader, tenant: string, sequence: number): Promise<string> {
  const { lines } = await reader.page(tenant, sequence - 1, 1);
  const [line] = lines.filter(({ type }) => type !== 'checkpoint');
  return (line && headAfter(line)?.link) ?? origin.link;
}

function headAfter(line: ExportLine): { sequence: number; link: string } | null {
  if (line.type === 'receipt') return { sequence: line.header.sequence, link: line.link };
  return line.type === 'gone' ? { sequence: line.sequence, link: line.link } : null;
}

function text(lines: readonly ExportLine[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
