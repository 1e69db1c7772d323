/** The request header `Prefer` (RFC 7240): `wait=SECONDS` and `respond-async`; whatever else it says is ignored. */
import type { FastifyReply } from 'fastify';

export interface Preferences {
  /** Milliseconds, already capped; absent when the caller stated none. */
  patienceMs?: number;
  respondAsync: boolean;
}

const token = /^[!#$%&'*+.^_`|~\w-]+$/;
const plainOrQuoted = /^(?:"([^"]*)"|([^\s"]*))$/;

/**
 * Of a preference that is stated twice, the first counts (RFC 7240 section 2); an invalid `wait` counts as not stated.
 * `respond-async` with `wait` means: answer 202 unless it is settled within that time. Alone, it means at once.
 */
export function readPreferences(header: string | string[] | undefined, maxPatienceMs: number): Preferences {
  if (header === undefined) return { respondAsync: false };
  const stated = statedPreferences(String(header));
  const respondAsync = stated.has('respond-async');
  const wait = stated.get('wait') ?? '';
  if (/^\d{1,9}$/.test(wait)) return { respondAsync, patienceMs: Math.min(Number(wait) * 1000, maxPatienceMs) };
  return respondAsync ? { respondAsync, patienceMs: 0 } : { respondAsync };
}

/** `name[=value]`; parameters after `;` belong to preferences that we do not have. Cut at its marks: one pattern over it all took seconds for a run of spaces. */
function statedPreferences(header: string): Map<string, string> {
  const stated = new Map<string, string>();
  for (const part of header.split(',')) {
    const [preference = ''] = part.split(';', 1);
    const equals = preference.indexOf('=');
    const name = (equals < 0 ? preference : preference.slice(0, equals)).trim().toLowerCase();
    const value = plainOrQuoted.exec(equals < 0 ? '' : preference.slice(equals + 1).trim());
    if (value && token.test(name) && !stated.has(name)) stated.set(name, value[1] ?? value[2] ?? '');
  }
  return stated;
}

/** Tells what was honoured: the wait as it was capped, and `respond-async` only where the answer is in fact a 202. */
export function reportApplied(reply: FastifyReply, preferences: Preferences, status: number): FastifyReply {
  const applied: string[] = [];
  if (preferences.respondAsync && status === 202) applied.push('respond-async');
  if (preferences.patienceMs !== undefined && (preferences.patienceMs > 0 || !preferences.respondAsync)) {
    applied.push(`wait=${Math.floor(preferences.patienceMs / 1000)}`);
  }
  return applied.length > 0 ? reply.header('preference-applied', applied.join(', ')) : reply;
}
