/** The request header `traceparent` (W3C Trace Context): an invalid one is ignored, as if it had not been sent. */
const w3cTraceparent = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

export function readTraceparent(header: string | string[] | undefined): { traceparent?: string } {
  return typeof header === 'string' && w3cTraceparent.test(header) ? { traceparent: header } : {};
}
