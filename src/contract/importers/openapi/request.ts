/** The arguments of an operation, and how each of them is sent. */
import type { Json, JsonObject } from '../../../model.js';
import { gap } from '../../gaps.js';
import { isSchemaObject } from '../../schema-subset.js';
import { parseTemplate, pathProblem } from '../../templates.js';
import { commented, type Draft } from './draft.js';
import { isIdempotencyKey, keyProblem } from './idempotency.js';
import type { Operation } from './operations.js';
import { type Budget, isPlainName, SchemaImport } from './schema.js';
import { clean, dereferenced, listOf, objectOf, own, shortened, textOf } from './source.js';

export interface ImportedRequest {
  args: JsonObject;
  http: { [member: string]: Draft };
  /** Where the key of the operation goes; null: the document names no such place. */
  key: string | null;
  /** `If-Match` is asked for, so the write can be made to depend on the version that was observed. */
  conditional: boolean;
  /** What was left out, for the comment above the request. */
  notes: string[];
}

export function importRequest(root: JsonObject, operation: Operation, budget: Budget): ImportedRequest {
  const draft = new RequestDraft(root, operation, budget);
  draft.parameters();
  draft.body();
  return draft.finished();
}

interface Parameter {
  name: string;
  in: string;
  required: boolean;
  schema: Json | undefined;
  description: string;
}

/** Set by the connection, by the gateway, or ignored by OpenAPI itself. */
const ownHeaders =
  /^(accept|content-type|content-length|authorization|proxy-authorization|host|connection|keep-alive|transfer-encoding|upgrade|te|trailer|expect|cookie|traceparent|tracestate|callgate-attempt)$/i;
/** What proves who asks must never come from a model. */
const credential = /auth|token|secret|credential|assertion|signature|api-?key|password|session|cookie/i;
/** Words that an expression cannot read as the name of a member. */
const unreadable = new Set(['in', 'true', 'false', 'null', 'constructor']);
const maxArguments = 300;

class RequestDraft {
  private readonly properties: Record<string, Json> = {};
  private readonly required: string[] = [];
  private readonly schemas: SchemaImport;
  private readonly query: { [name: string]: Draft } = {};
  private readonly headers: { [name: string]: Draft } = {};
  private readonly notes: string[] = [];
  private path: string;
  private bodyValue: Draft | undefined;
  private key: string | null = null;
  private conditional = false;

  constructor(
    private readonly root: JsonObject,
    private readonly operation: Operation,
    budget: Budget,
  ) {
    this.schemas = new SchemaImport(root, 'args', budget);
    this.path = operation.path;
  }

  finished(): ImportedRequest {
    const { method } = this.operation;
    const args = this.schemas.withDefinitions({
      type: 'object',
      properties: this.properties,
      ...(this.required.length === 0 ? {} : { required: this.required }),
    });
    const http = {
      method,
      path: this.path,
      ...(Object.keys(this.query).length === 0 ? {} : { query: this.query }),
      ...(Object.keys(this.headers).length === 0 ? {} : { headers: this.headers }),
      ...(this.bodyValue === undefined ? {} : { body: this.bodyValue }),
    };
    return { args, http, key: this.key, conditional: this.conditional, notes: this.notes };
  }

  parameters(): void {
    const found = this.declared();
    this.fillPath(found.filter((one) => one.in === 'path'));
    for (const one of found) {
      if (one.in === 'query') this.simple(one, this.query);
      else if (one.in === 'header') this.header(one);
      else if (one.in === 'cookie') this.unsendable(one, this.headers, 'cookies are not sent');
    }
  }

  /** Those of the operation replace those of the path. */
  private declared(): Parameter[] {
    const found = new Map<string, Parameter>();
    for (const written of [...listOf(this.operation.item['parameters']), ...listOf(this.operation.source['parameters'])]) {
      const parameter = dereferenced(this.root, written);
      const [name, place] = [textOf(parameter['name']), textOf(parameter['in'])];
      if (!isPlainName(name)) continue;
      const content = own(parameter, 'content');
      found.set(`${place} ${name}`, {
        name,
        in: place,
        required: parameter['required'] === true,
        schema: content === undefined ? parameter['schema'] : undefined,
        description: textOf(parameter['description']),
      });
    }
    return [...found.values()];
  }

  private fillPath(parameters: readonly Parameter[]): void {
    const byName = new Map(parameters.map((one) => [one.name, one]));
    const names = new Map<string, string>();
    const literal = this.operation.path.replace(/\{([^{}]*)\}/g, (_, name: string) => {
      const known = names.get(name) ?? this.pathArgument(name, byName.get(name));
      names.set(name, known);
      return `{args.${known}}`;
    });
    this.path = isSendable(literal) ? literal : gap(`the path \`${clean(this.operation.path).slice(0, 200)}\` as a template; a query belongs under \`query\``);
  }

  private pathArgument(name: string, parameter: Parameter | undefined): string {
    const schema = parameter && this.scalar(parameter) ? this.described(parameter) : { type: 'string', minLength: 1, maxLength: 200 };
    return this.argument('path', name, schema, true);
  }

  private header(parameter: Parameter): void {
    const { name, description } = parameter;
    const write = this.operation.method !== 'GET';
    if (ownHeaders.test(name)) return;
    if (isIdempotencyKey(name, description)) {
      if (write) this.keyed(this.headers, name, '{operation.id}', parameter.schema, `the header ${name}`);
    } else if (/^if-match$/i.test(name) && write) {
      this.conditional = true;
      this.headers[name] = commented(
        'The write can depend on the version that was observed: `{ENTITY.version}` once `entity` is answered. Remove the line if it has none.',
        gap('the version of the entity, or remove the line'),
      );
    } else if (/^if-/i.test(name) || credential.test(name)) this.unsendable(parameter, this.headers, 'it is not for a model to choose');
    else if (!/^[A-Za-z][A-Za-z0-9-]*$/.test(name)) this.unsendable(parameter, this.headers, 'its name cannot be written');
    else this.simple(parameter, this.headers);
  }

  private keyed(members: { [name: string]: Draft }, name: string, value: string, schema: Json | undefined, place: string): void {
    this.key ??= place;
    const problem = keyProblem(dereferenced(this.root, schema));
    members[name] = problem === null ? value : commented(`The key of the operation goes here, and ${clean(problem)}.`, gap('a key that fits and is the same for every attempt'));
  }

  /** One text, number or boolean; anything else has no form of its own in a query or header. */
  private simple(parameter: Parameter, members: { [name: string]: Draft }): void {
    if (!this.scalar(parameter)) this.unsendable(parameter, members, 'lists and objects are not written there');
    else if (parameter.name.startsWith('?') || Object.keys(this.properties).length >= maxArguments)
      this.unsendable(parameter, members, 'there is no room for it');
    else {
      const name = this.argument(parameter.in, parameter.name, this.described(parameter), parameter.required);
      members[parameter.required ? parameter.name : `?${parameter.name}`] = `{args.${name}}`;
    }
  }

  private unsendable({ name, in: place, required }: Parameter, members: { [name: string]: Draft }, why: string): void {
    const shown = clean(name);
    if (required && /^[A-Za-z][A-Za-z0-9-]*$/.test(name)) members[name] = commented(`Required, and ${why}.`, gap(`what the ${place} parameter \`${shown}\` carries`));
    else if (required) this.path = gap(`how the required ${place} parameter \`${shown}\` is sent; ${why}`);
    else this.notes.push(`The ${place} parameter ${shown} was left out: ${why}.`);
  }

  private scalar({ schema }: Parameter): boolean {
    const { type, enum: values } = dereferenced(this.root, schema);
    const types = (Array.isArray(type) ? type : [type]).filter((one) => one !== 'null' && one !== undefined);
    const [only] = types.length > 0 ? types : [...new Set(listOf(values).map((value) => typeof value))];
    const count = types.length > 0 ? types.length : new Set(listOf(values).map((value) => typeof value)).size;
    return count === 1 && ['string', 'number', 'integer', 'boolean'].includes(String(only));
  }

  /** Referenced schemas of parameters are short and are written out, so that each has a type of its own. */
  private described({ schema, description }: Parameter): Json {
    const { allOf: _, anyOf: __, oneOf: ___, ...plain } = dereferenced(this.root, schema);
    const told = shortened(description, 300);
    const converted = this.schemas.convert(told === '' ? plain : { ...plain, description: told });
    if (!isSchemaObject(converted)) return converted;
    return Array.isArray(converted['type']) ? { ...converted, type: converted['type'].filter((one) => one !== 'null')[0] ?? 'string', ...withoutNull(converted) } : converted;
  }

  /** @returns the name of the argument, which an expression can read */
  private argument(place: string, written: string, schema: Json, required: boolean): string {
    const words = written.replace(/\W+/g, '_').replace(/^_+|_+$/g, '').slice(0, 60) || 'value';
    const name = /^\d/.test(words) || unreadable.has(words) ? `${words.replace(/^(\d)/, 'n$1')}${unreadable.has(words) ? '_' : ''}` : words;
    const free = [name, `${place}_${name}`].find((one) => !Object.hasOwn(this.properties, one)) ?? numbered(name, this.properties);
    this.properties[free] = schema;
    if (required) this.required.push(free);
    return free;
  }

  body(): void {
    const { method, source } = this.operation;
    const declared = dereferenced(this.root, source['requestBody']);
    const contents = objectOf(declared['content']);
    const types = Object.keys(contents);
    if (types.length === 0) return;
    if (method === 'GET' || method === 'DELETE') {
      if (declared['required'] === true) this.bodyValue = commented(`A ${method} with a body is dropped by many servers, and Callgate sends none.`, gap('how it is asked for without a body'));
      else this.notes.push(`The optional body of the ${method} was left out.`);
      return;
    }
    const type = types.find((one) => /^application\/json\b/i.test(one)) ?? types.find((one) => /[/+]json\b/i.test(one)) ?? (types.includes('*/*') ? '*/*' : undefined);
    if (type === undefined) {
      this.bodyValue = commented(`The service takes ${clean(types.join(', ')).slice(0, 200)}, and Callgate sends JSON.`, gap('a body in JSON, if the service takes one'));
      return;
    }
    if (/\+json\b/i.test(type) && /^[\w.+/-]+$/.test(type)) this.headers['Content-Type'] = type;
    this.jsonBody(own(own(contents, type), 'schema'));
  }

  /** The members of an object become arguments, so that each can be bound, limited and compared; anything else is one argument. */
  private jsonBody(schema: Json | undefined): void {
    const object = dereferenced(this.root, schema);
    const members = Object.entries(objectOf(object['properties'])).filter(([name, member]) => isPlainName(name) && own(member, 'readOnly') !== true);
    const combined = ['allOf', 'anyOf', 'oneOf', 'not', 'if'].some((keyword) => object[keyword] !== undefined);
    const flat = !combined && members.length > 0 && !members.some(([name]) => name.startsWith('?')) && members.length < maxArguments;
    if (!flat) {
      this.bodyValue = `args.${this.argument('body', 'body', this.schemas.convert(schema), true)}`;
      return;
    }
    const required = new Set(listOf(object['required']));
    const body: { [name: string]: Draft } = {};
    for (const [name, member] of members) this.bodyMember(body, name, member, required.has(name));
    this.bodyValue = body;
  }

  private bodyMember(body: { [name: string]: Draft }, name: string, member: Json, required: boolean): void {
    const described = dereferenced(this.root, member);
    if (isIdempotencyKey(name, textOf(own(member, 'description') ?? described['description']))) {
      this.keyed(body, name, 'operation.id', member, `the body member ${name}`);
      return;
    }
    const argument = this.argument('body', name, this.schemas.convert(member), required);
    body[required && !admitsNull(described) ? name : `?${name}`] = `args.${argument}`;
  }
}

function isSendable(path: string): boolean {
  try {
    return pathProblem(parseTemplate(path)) === undefined;
  } catch {
    return false;
  }
}

function admitsNull(schema: JsonObject): boolean {
  const { type, nullable, anyOf, oneOf, allOf } = schema;
  return nullable === true || (Array.isArray(type) && type.includes('null')) || type === undefined || [anyOf, oneOf, allOf].some((one) => one !== undefined);
}

/** Null has no form in a query or header. */
function withoutNull(schema: JsonObject): JsonObject {
  return Array.isArray(schema['enum']) ? { enum: schema['enum'].filter((value) => value !== null) } : {};
}

function numbered(name: string, taken: object): string {
  for (let count = 2; ; count++) if (!Object.hasOwn(taken, `${name}_${count}`)) return `${name}_${count}`;
}
