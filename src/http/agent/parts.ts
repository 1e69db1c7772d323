/** What the agent listener is made of. */
import type { AgentDoor, Authenticator } from '../../ports.js';
import type { CallerLimitsParts } from '../caller-limits.js';
import type { ServerParts } from '../server.js';

export interface AgentServerParts extends ServerParts {
  door: AgentDoor;
  authenticator: Authenticator;
  /** Absent: no bounds. */
  callers?: CallerLimitsParts;
}
