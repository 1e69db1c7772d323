/** Real agents' calls, as they were recorded beside this checkout. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { answerOf as answer, argumentsOf as argumentsOrNull, type Conversation, readConversations, type RecordedCall } from '../../examples/tau-retail/acceptance/recordings.js';
import type { Json, JsonObject } from '../../src/model.js';

export { type Conversation, isInjected, isKnownFault, place, type RecordedCall, toTheCent } from '../../examples/tau-retail/acceptance/recordings.js';

export const dataFolder = join(process.cwd(), '..', 'shared', 'data', 'tau-retail');
const file = join(dataFolder, 'calls.jsonl');
export const recorded = existsSync(file);

export function conversations(): Conversation[] {
  return readConversations(file);
}

export function argumentsOf(call: RecordedCall): JsonObject {
  return argumentsOrNull(call) as JsonObject;
}

export function answerOf(call: RecordedCall): Json {
  return answer(call) as Json;
}
