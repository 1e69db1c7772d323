/** The body of a request on the control plane: strict JSON of exactly the members that are described, or a refusal that says what is wrong. */
import type { Static, TObject } from '@sinclair/typebox';
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler';
import type { FastifyRequest } from 'fastify';
import { type Refusal, refuse } from '../../errors.js';
import type { FieldError, Json } from '../../model.js';
import { decodeUtf8, findUnstorable, parseStrict } from '../../strict-json.js';

const maxDepth = 32;
const maxErrors = 20;

/** @returns a reader of bodies of that shape, which must be closed. */
export function jsonBody<Shape extends TObject>(shape: Shape): (request: FastifyRequest) => Static<Shape> | Refusal {
  const check = TypeCompiler.Compile(shape);
  return ({ body }) => {
    const text = Buffer.isBuffer(body) ? decodeUtf8(body) : '';
    if (text === null) return refuse('MALFORMED_JSON', 'The body is not valid UTF-8.');
    const parsed = parseStrict(text, { maxDepth });
    if (!parsed.ok) {
      const errors = [{ pointer: parsed.pointer, code: parsed.code.toLowerCase(), message: parsed.message }];
      return refuse(parsed.code, `${parsed.message} (at character ${parsed.position}).`, { errors });
    }
    const errors = wrongMembers(check, parsed.value);
    if (errors.length > 0) return refuse('INVALID_ENVELOPE', `The body has wrong members, the first at \`${errors[0]?.pointer ?? ''}\`.`, { errors });
    return parsed.value as Static<Shape>;
  };
}

function wrongMembers(check: TypeCheck<TObject>, value: Json): FieldError[] {
  if (!check.Check(value)) {
    const found = new Map<string, FieldError>();
    for (const { path, message } of check.Errors(value)) {
      if (!found.has(path)) found.set(path, { pointer: path, code: 'type', message });
      if (found.size === maxErrors) break;
    }
    return [...found.values()];
  }
  const unstorable = findUnstorable(value);
  return unstorable === null ? [] : [{ pointer: unstorable, code: 'unstorable_text', message: 'Remove NUL or the lone surrogate; neither can be stored.' }];
}
