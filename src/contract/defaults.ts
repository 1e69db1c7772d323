/** What holds where a contract says nothing. Not part of any digest: an operator may set these. */
export interface ContractDefaults {
  attempts: number;
  elapsedMs: number;
  upstreamDeadlineMs: number;
  connectTimeoutMs: number;
  approvalExpiresMs: number;
}

/** Semantics.md section 10. */
export const standardDefaults: ContractDefaults = {
  attempts: 3, elapsedMs: 30_000, upstreamDeadlineMs: 10_000, connectTimeoutMs: 2_000, approvalExpiresMs: 900_000,
};
