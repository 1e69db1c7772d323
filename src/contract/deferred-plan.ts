import type { ToolPlan } from './plan.js';

/** Every member, told by the compiler when one is missing. */
const members: Record<keyof ToolPlan, true> = {
  name: true,
  service: true,
  version: true,
  digest: true,
  effect: true,
  purpose: true,
  useWhen: true,
  notWhen: true,
  argsSchema: true,
  resultSchema: true,
  examples: true,
  counterexamples: true,
  checkArguments: true,
  admitResult: true,
  bind: true,
  bindLast: true,
  lasts: true,
  remembered: true,
  undoes: true,
  relations: true,
  preconditions: true,
  entity: true,
  observesEntity: true,
  touches: true,
  observations: true,
  lets: true,
  expect: true,
  identity: true,
  repeatable: true,
  render: true,
  idempotency: true,
  never: true,
  errors: true,
  notFound: true,
  readback: true,
  verify: true,
  retry: true,
  approvals: true,
  async: true,
  compensate: true,
  redact: true,
  public: true,
  untrusted: true,
  partial: true,
  durability: true,
  upstream: true,
};

/** Plans refer to one another in circles, so the object is there from the start and is filled when one of its members is first read. */
export function defer(plan: ToolPlan, fill: () => void): void {
  for (const member of Object.keys(members) as (keyof ToolPlan)[]) {
    Object.defineProperty(plan, member, {
      configurable: true,
      enumerable: true,
      get: () => {
        for (const each of Object.keys(members)) Object.defineProperty(plan, each, { value: undefined, writable: true });
        fill();
        Object.freeze(plan);
        return plan[member];
      },
    });
  }
}
