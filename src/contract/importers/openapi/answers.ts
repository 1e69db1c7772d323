/** What the document says of an operation's answers: the result, and the errors whose meaning it leaves open. */
import type { Json, JsonObject } from '../../../model.js';
import { gap } from '../../gaps.js';
import { isSchemaObject } from '../../schema-subset.js';
import { commented, type Draft } from './draft.js';
import type { Operation } from './operations.js';
import { type Budget, SchemaImport } from './schema.js';
import { dereferenced, objectOf, own, shortened, textOf } from './source.js';

export interface ImportedAnswers {
  result: Json;
  /** Of a write: one rule for each documented error whose default meaning would be a guess. */
  errors: Draft[];
  /** 404 means that what the path names is not there. */
  notFound: boolean;
  /** 202 is documented: it may go on after the answer. */
  accepted: boolean;
}

interface Answer {
  status: number;
  description: string;
  contents: JsonObject;
}

export function importAnswers(root: JsonObject, { source, path, method }: Operation, budget: Budget): ImportedAnswers {
  const answers = Object.entries(objectOf(source['responses']))
    .filter(([status]) => /^[1-5]\d\d$/.test(status))
    .map(([status, declared]): Answer => {
      const answer = dereferenced(root, declared);
      return { status: Number(status), description: shortened(textOf(answer['description']), 150), contents: objectOf(answer['content']) };
    })
    .sort((a, b) => a.status - b.status);
  const range = dereferenced(root, own(source['responses'], '2XX') ?? own(source['responses'], 'default'));
  const write = method !== 'GET';
  const notFound = answers.some(({ status }) => status === 404) && path.includes('{');
  return {
    result: result(root, answers, objectOf(range['content']), budget),
    errors: write ? answers.filter(({ status }) => isOpen(status, notFound)).map(errorRule) : [],
    notFound,
    accepted: write && answers.some(({ status }) => status === 202),
  };
}

/** Of the first success that has a body in JSON. */
function result(root: JsonObject, answers: readonly Answer[], fallback: JsonObject, budget: Budget): Json {
  const successes = answers.filter(({ status }) => status >= 200 && status < 300 && status !== 202);
  const bodies = successes.map(({ contents }) => contents).filter((contents) => Object.keys(contents).length > 0);
  if (bodies.length === 0 && successes.length > 0) return { type: 'null' };
  const contents = bodies[0] ?? fallback;
  const type = Object.keys(contents).find((one) => /[/+]json\b/i.test(one)) ?? (Object.hasOwn(contents, '*/*') ? '*/*' : undefined);
  if (type === undefined) return gap('the JSON Schema of the answer; the document describes none in JSON');
  const schemas = new SchemaImport(root, 'result', budget);
  const schema = schemas.convert(own(contents[type], 'schema'));
  if (!isSchemaObject(schema)) return schema;
  return Object.keys(schema).length === 0 ? gap('the JSON Schema of the answer; the document admits anything') : schemas.withDefinitions(schema);
}

/**
 * The others have a meaning without a rule: 401 and 403 are refusals, 404 is `not_found` where a path names something, 429 is
 * rate limited, and 408, 425 and 5xx leave the outcome unknown, which is the only safe reading.
 */
function isOpen(status: number, notFound: boolean): boolean {
  return status >= 400 && status < 500 && ![401, 403, 408, 425, 429].includes(status) && !(status === 404 && notFound);
}

function errorRule({ status, description }: Answer): Draft {
  const rule = {
    when: `status == ${status}`,
    outcome: gap('rejected, not_committed, committed, accepted or unknown'),
    next: gap('ask, refresh, repair, wait, verify, retry, abandon, escalate or continue'),
  };
  return commented(`${status}${description === '' ? '' : `: ${description}`}\nHas nothing happened, and what may the model do next? Tell cases apart by \`body\` if the answer does.`, rule);
}
