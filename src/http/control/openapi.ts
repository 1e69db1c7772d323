/** The API description: `openapi.yaml` is the governed text, `/openapi.json` the same as JSON. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { JsonObject } from '../../model.js';

/** @param file path or file URL of openapi.yaml. @throws Error when it cannot be read or is not YAML. */
export function readOpenapi(file: string | URL): JsonObject {
  return parse(readFileSync(file, 'utf8')) as JsonObject;
}
