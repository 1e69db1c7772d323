/** What the service says to one request, before it is put on a socket. */
export interface Answer {
  status: number;
  /** Lower-case names. */
  headers?: Record<string, string>;
  body: unknown;
}

export function refusal(status: number, code: string): Answer {
  return { status, body: { code } };
}
