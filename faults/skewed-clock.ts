/** Preloaded into a replica: its wall clock is wrong by FAULTS_SKEW_MS. Its monotonic clock is not, as on a real machine. */
const skewMs = Number(process.env['FAULTS_SKEW_MS'] ?? 0);
const Real = Date;
const now = (): number => Real.now() + skewMs;

globalThis.Date = new Proxy(Real, {
  construct: (target, given, newTarget) => Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget) as object,
  apply: () => new Real(now()).toString(),
  get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
});
