/** A session is named by its caller, so any text that can be stored is one. */
import { Type } from '@fastify/type-provider-typebox';

export const sessionId = Type.String({ minLength: 1, maxLength: 512, pattern: '^[^\\u0000]*$' });
