/** The nine words, as they are told to people; a model can be told the same once, in its system prompt. */
import type { NextAction } from './model.js';

export const nextActionMeanings: Record<NextAction, string> = {
  continue: 'The call is done. Go on with the task.',
  ask: 'Ask the user: something only they can say is missing or wrong.',
  refresh: 'The world has moved. Read the resource again, then decide anew.',
  repair: 'The call itself is wrong. Correct it and propose it again.',
  wait: 'It is running, or may have happened. Ask for this operation later; never propose a new call in its place.',
  verify: 'It was done and is not confirmed yet. Call the read tool named in `verify_with`.',
  retry: 'Nothing happened. The same call with the same ids may be sent again.',
  abandon: 'It will not work. Do not try again; tell the user.',
  escalate: 'A person has to decide. Hand it over and go on with something else.',
};
