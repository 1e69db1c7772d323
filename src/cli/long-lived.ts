/** What a process that serves for days is careful with. */
import { setFlagsFromString } from 'node:v8';

/**
 * V8 lets the heap grow up to four times over what was alive before it collects it all, in a process that lives on short-lived objects: 300 MB for a gateway whose
 * live heap is 50. Held to half as much again it took 222 to 238 MB at 64 clients, and its CPU per call was not to be told from the former (docs/performance.md).
 */
export function servesForLong(): void {
  setFlagsFromString('--heap-growing-percent=50');
}
