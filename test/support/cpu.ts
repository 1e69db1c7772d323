/** What work costs this process, in milliseconds: other work of the machine does not stretch it as it does a clock. */
export function cpuMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
