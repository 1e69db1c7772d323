/** What a process that serves for days is careful with. */
import { setFlagsFromString } from 'node:v8';

/**
 * V8 lets the heap grow up to four times over what was alive before it collects it all, in a process that lives on short-lived objects: 300 MB for a gateway whose
 * live heap is 50. Held to half as much again it takes 210 to 230 MB at 64 clients, for a tenth more of its CPU (docs/performance.md).
 */
export function servesForLong(): void {
  setFlagsFromString('--heap-growing-percent=50');
}
