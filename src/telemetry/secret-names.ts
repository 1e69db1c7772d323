/** Names of members whose value is a secret, in any style of spelling: `api_key`, `apiKey`, `X-API-Key`, `APIKEY`. */

const secretWords = new Set([
  'password', 'passwords', 'passwd', 'passphrase', 'pwd', 'secret', 'secrets', 'authorization', 'credential', 'credentials',
  'cookie', 'cookies', 'pepper', 'otp', 'cvv', 'cvc', 'pin', 'jwt',
]);
/** Over the words run together, at the end: `token_count` and `key_id` are no secrets. */
const secretEnding = /(password|passwd|passphrase|secret|token|(api|private|access|signing|encryption|seal|master|shared|account|ssh|agent|application|auditor|admin|reviewer)keys?)$/;
/** Tokens that are places in a list, and end in the same word. */
const harmlessEnding = /(page|continuation|sync|next|cursor)token$/;

/** The same few hundred names come again in every record. */
const verdicts = new Map<string, boolean>();
const verdictsAtMost = 5_000;

export function isSecretName(name: string): boolean {
  const known = verdicts.get(name);
  if (known !== undefined) return known;
  const verdict = judge(name.slice(0, 128));
  if (name.length <= 128 && verdicts.size < verdictsAtMost) verdicts.set(name, verdict);
  return verdict;
}

function judge(name: string): boolean {
  const words = name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').toLowerCase().split(/[^a-z0-9]+/);
  const together = words.join('');
  return words.some((word) => secretWords.has(word)) || (secretEnding.test(together) && !harmlessEnding.test(together));
}
