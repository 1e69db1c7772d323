/** What the service says to one request, before it is put on a socket. */
export interface Answer {
  status: number;
  /** Lower-case names. */
  headers?: Record<string, string>;
  body: Record<string, unknown>;
}

/** A request that is not well formed: it is answered before anything is decided, and no key is bound to it. */
export class Malformed extends Error {
  constructor(detail: string, readonly status = 400, readonly code = 'BAD_REQUEST') {
    super(detail);
    this.name = 'Malformed';
  }

  get answer(): Answer {
    return { status: this.status, body: { code: this.code, detail: this.message } };
  }
}

export function refusal(status: number, code: string): Answer {
  return { status, body: { code } };
}
