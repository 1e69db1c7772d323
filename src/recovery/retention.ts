/**
 * What receipts say, and the answers that are kept for replays, go after `retention.payloads`; identity, outcome and digests of an operation stay
 * for ever. Nothing goes of an operation that has not ended: unknown, accepted, parked, in review, or still to be verified.
 */
export interface Erasures {
  /** Those that may have something that is older. */
  tenants(keptMs: number): Promise<string[]>;
  /** Writes notices of what is old enough. @returns whether to ask again at once */
  plan(tenant: string, keptMs: number): Promise<boolean>;
  /** Erases what notices name that have their place in the chain by now. */
  carryOut(): Promise<{ erased: number; more: boolean }>;
}

export async function retain(erasures: Erasures, keptMs: number, stopped: () => boolean): Promise<void> {
  while (!stopped() && (await erasures.carryOut()).more);
  for (const tenant of await erasures.tenants(keptMs)) {
    while (!stopped() && (await erasures.plan(tenant, keptMs)));
  }
}
