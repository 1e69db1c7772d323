/** The embedded Postgres could not be provided. The message says what, why and how to mend it; it is meant for a terminal. */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';
}

export const useServer = 'or set DATABASE_URL to a Postgres server of your own';

/** The end of a program's output, indented for an error message. */
export function quote(lines: readonly string[]): string {
  return lines.length === 0 ? '  (no output)' : lines.slice(-12).map((line) => `  ${line}`).join('\n');
}
