/** How long a domain service asks to be left alone (RFC 9110 section 10.2.3). */

/**
 * Milliseconds to wait, within 0 and `capMs`; null when the header is absent or neither of the two forms of the
 * field. `Date.parse` is not asked: it takes "3.5" for a day in March.
 * @param now wall clock in milliseconds since 1970, for the date form
 */
export function parseRetryAfter(header: string | undefined, now: number, capMs: number): number | null {
  const text = header?.trim() ?? '';
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : httpDate(text, now) - now;
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), capMs);
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const time = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`;
/** RFC 9110 section 5.6.7: the form in use, and the two obsolete ones that a recipient must still accept. */
const dateForms = [
  new RegExp(String.raw`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) ${time} GMT$`),
  new RegExp(String.raw`^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) ${time} GMT$`),
  new RegExp(String.raw`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) ${time} (?<year>\d{4})$`),
];

/** Milliseconds since 1970, or NaN. */
function httpDate(text: string, now: number): number {
  const fields = dateForms.map((form) => form.exec(text)?.groups).find((groups) => groups !== undefined);
  const month = months.indexOf(fields?.month ?? '');
  if (!fields || month < 0) return NaN;
  const [year, day, hour, minute, second] = [fields.year, fields.day, fields.hour, fields.minute, fields.second].map(Number) as
    [number, number, number, number, number];
  const date = Date.UTC(fullYear(year, now), month, day, hour, minute, second);
  const exists = new Date(date).getUTCDate() === day && hour < 24 && minute < 60 && second < 61;
  return exists ? date : NaN;
}

/** Two digits that would lie more than 50 years ahead mean the century before (RFC 9110 section 5.6.7). */
function fullYear(year: number, now: number): number {
  if (year > 99) return year;
  const thisYear = new Date(now).getUTCFullYear();
  const candidate = thisYear - (thisYear % 100) + year;
  return candidate > thisYear + 50 ? candidate - 100 : candidate;
}
