/** What a process that ends within seconds does without. */
import { setFlagsFromString } from 'node:v8';

/**
 * Optimised code pays when it runs for long, as that of a gateway does. Of a check of 500 tools, optimising the WebAssembly of the policy checker
 * took 0.4 s of CPU and 45 MB for 0.06 s of its running, and optimising JavaScript as eagerly as V8 does by itself 0.3 s more than with four times
 * its budget of work before. To be called before the policy checker is loaded.
 */
export function endsSoon(): void {
  setFlagsFromString('--liftoff-only');
  setFlagsFromString(`--interrupt-budget=${4 * 66 * 1024}`);
}
