/** How long the other side asks to pause. */

/**
 * The header Retry-After in both of its forms, in milliseconds; null where there is none that can be read. A date is held against the
 * sender's own clock (the header Date), so that a wrong clock on either side does not make a pause of years, or none.
 */
export function retryAfterMs(headers: Headers): number | null {
  const text = headers.get('retry-after')?.trim();
  if (!text) return null;
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  if (Number.isNaN(at)) return null;
  const sent = Date.parse(headers.get('date') ?? '');
  return Math.max(0, at - (Number.isNaN(sent) ? Date.now() : sent));
}
