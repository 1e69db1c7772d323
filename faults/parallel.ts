export async function inParallel<T>(items: readonly T[], width: number, work: (item: T, n: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(Array.from({ length: width }, async () => {
    for (let n = next++; n < items.length; n = next++) await work(items[n] as T, n);
  }));
}
