/** The list of tools that comes with a credential; policy may allow fewer of them. */
import type { Principal } from '../model.js';

export function isListed({ tools }: Pick<Principal, 'tools'>, name: string): boolean {
  return tools === '*' || tools.includes(name);
}
