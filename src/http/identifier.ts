/** The shape of every id that Callgate mints. What has another cannot exist, and need not reach a database. */
export function isIdentifier(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(text);
}
