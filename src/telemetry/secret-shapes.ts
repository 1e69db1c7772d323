/**
 * Text that is a secret whatever it is called. Every repetition is bounded or cannot overlap with what precedes it, so
 * that a hostile text costs linear time.
 */
interface Shape {
  /** What every match contains, in any case: a text without any hint is not searched further. */
  hint: RegExp;
  pattern: RegExp;
  /** A second look at what the pattern found. */
  holds?: (found: string) => boolean;
}

/** Where a pattern has the group `secret`, that group is the secret; else the whole match is. */
const shapes: readonly Shape[] = [
  { hint: /PRIVATE KEY/, pattern: /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)/g },
  // scheme://user:password@host
  { hint: /:\/\//, pattern: /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s/:@"'«]{0,256}:(?<secret>[^\s/"'«]{1,1024})@/gi },
  { hint: /bearer/, pattern: /\bBearer\s{1,8}(?<secret>[\w.~+/=-]{6,})/g },
  { hint: /bearer/, pattern: /\bbearer\s{1,8}(?<secret>[\w.~+/=-]{12,})/gi, holds: (found) => /\d/.test(found) },
  { hint: /basic/, pattern: /\bBasic\s{1,8}(?<secret>[A-Za-z0-9+/=]{8,})/gi, holds: (found) => Buffer.from(found, 'base64').includes(':') },
  // this gateway's own keys
  { hint: /cg_/, pattern: /\bcg_[a-z2-7]{8}_[0-9A-Za-z]{16,}/g },
  // model providers, code hosts, clouds, chat, payment
  { hint: /sk-/, pattern: /\bsk-[\w-]{6,}/g, holds: (found) => /[0-9A-Z]/.test(found) },
  {
    hint: /gh[opusr]_|github_pat|glpat|npm_|hf_|xox|k_live|k_test|whsec|dop_v1/,
    pattern: /\b(?:gh[opusr]_|github_pat_|glpat-|npm_|hf_|xox[abeoprs]-|[spr]k_(?:live|test)_|whsec_|dop_v1_)[\w-]{4,}/g,
  },
  { hint: /akia|asia/, pattern: /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g },
  { hint: /aiza/, pattern: /\bAIza[\w-]{30,}/g },
  { hint: /eyj/, pattern: /(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*/g },
  // name=value and "name": "value" inside text, however often it was quoted
  {
    hint: /pass|pwd|secret|token|credential|key|sig/,
    pattern: /(?:password|passwd|passphrase|pwd|secret|token|credentials?|(?:api|private|access|signing|encryption|seal)[_ -]?key|signature|sig)\\{0,8}["']?\s{0,4}=\s{0,4}\\{0,8}["']?(?<secret>[^\s"'\\,;&«<>]+)/gi,
  },
  {
    hint: /pass|secret|token|credential|key|authorization|cookie/,
    pattern: /(?:password|passwd|passphrase|secret|token|authorization|cookie|credentials?|(?:api|private|access|signing|encryption|seal)[_ -]?key)\\{0,8}["']\s{0,4}:\s{0,4}\\{0,8}["'](?<secret>[^"'\\«]+)/gi,
  },
  { hint: /pass|key/, pattern: /\b(?:password|passwd|passphrase|(?:api|private|access)[_ -]?key)\s{0,4}:\s{0,4}(?<secret>[^\s"'\\,;&«<>]{4,})/gi },
  { hint: /cookie|authorization/, pattern: /\b(?:set-cookie|cookie|authorization)\s{0,4}:\s{0,4}(?<secret>[^\s«][^\r\n«]*)/gi },
];

/** One pass over a text instead of fifteen, for the many that hold nothing (a receipt: 158 µs without it). */
const anyHint = new RegExp([...new Set(shapes.map(({ hint }) => hint.source))].join('|'), 'i');

/** Replaces each secret that its own look gives away, and leaves the rest of the text as it is. */
export function replaceSecretShapes(text: string, mark: (secret: string) => string): string {
  return anyHint.test(text) ? shapes.reduce((rest, shape) => replaceShape(rest, shape, mark), text) : text;
}

/** The same few hundred names come again in every record. */
const harmless = new Set<string>();
const harmlessAtMost = 5_000;

/** No part of this name of a member looks like a secret. */
export function isHarmlessName(name: string): boolean {
  if (harmless.has(name)) return true;
  if (anyHint.test(name)) return false;
  if (name.length <= 128 && harmless.size < harmlessAtMost) harmless.add(name);
  return true;
}

function replaceShape(text: string, { pattern, holds }: Shape, mark: (secret: string) => string): string {
  return text.replace(pattern, (whole: string, ...rest: unknown[]) => {
    const groups = rest.at(-1);
    const secret = typeof groups === 'object' && groups !== null ? (groups as { secret: string }).secret : whole;
    if (holds && !holds(secret)) return whole;
    const start = whole.lastIndexOf(secret);
    return whole.slice(0, start) + mark(secret) + whole.slice(start + secret.length);
  });
}
