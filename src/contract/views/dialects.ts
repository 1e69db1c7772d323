/**
 * What each provider accepts of a tool, as data. Providers validate the tools of a request as a whole, so one schema that is
 * refused fails every request (case-62): where what is published and what is seen disagree, the narrower of the two stands here.
 * docs/views.md names the sources.
 */
export const dialects = ['openai-chat', 'openai-responses', 'anthropic', 'gemini', 'mcp'] as const;
export type Dialect = (typeof dialects)[number];

export interface Subset {
  /** Keywords that are carried as they are. `type`, `properties`, `required` and `items` always are. */
  readonly keywords: ReadonlySet<string>;
  /** Formats that are carried; null: all. */
  readonly formats: ReadonlySet<string> | null;
  /** How a value of several types is written: as a list, as a list with `null` alone, or by OpenAPI's `nullable`. */
  readonly severalTypes: 'list' | 'null' | 'nullable';
  /** Every value position says its type. */
  readonly typed: boolean;
  /** Enumerations of texts only. */
  readonly textEnums: boolean;
  /** `anyOf` stands alone in its schema. */
  readonly loneUnions: boolean;
  /** Objects say `additionalProperties`: as a schema too, as `false` only, or never. */
  readonly openness: 'schema' | 'false' | 'unsaid';
  /** Objects without named members are refused below the root. */
  readonly namedMembers: boolean;
  /** Every object is closed and requires all its members. */
  readonly strict: boolean;
  readonly memberNames: RegExp | null;
}

const texts = ['minLength', 'maxLength', 'pattern', 'format'];
const numbers = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
const lists = ['minItems', 'maxItems'];
const values = ['enum', 'description', 'title'];
const furtherAssertions = [
  'const',
  'not',
  'propertyNames',
  'dependentRequired',
  'minProperties',
  'maxProperties',
  'uniqueItems',
  'contains',
  'minContains',
  'maxContains',
  'default',
];

const openai: Subset = {
  keywords: new Set([...values, ...texts, ...numbers, ...lists]),
  formats: new Set(['date-time', 'time', 'date', 'duration', 'email', 'ipv4', 'ipv6', 'uuid']),
  severalTypes: 'null',
  typed: true,
  textEnums: false,
  loneUnions: false,
  openness: 'schema',
  namedMembers: false,
  strict: false,
  memberNames: null,
};

/** Structured Outputs: documented are `pattern` and `format` of texts, not their lengths, and no `title`. */
export const openaiStrict: Subset = {
  ...openai,
  keywords: new Set(['enum', 'description', 'pattern', 'format', ...numbers, ...lists]),
  openness: 'false',
  strict: true,
};

const anthropic: Subset = {
  keywords: new Set([...values, ...texts, ...numbers, ...lists, ...furtherAssertions]),
  formats: null,
  severalTypes: 'list',
  typed: false,
  textEnums: false,
  loneUnions: false,
  openness: 'schema',
  namedMembers: false,
  strict: false,
  memberNames: /^[a-zA-Z0-9_.-]{1,64}$/,
};

const gemini: Subset = {
  keywords: new Set(['enum', 'description', 'format', 'minLength', 'maxLength', 'minimum', 'maximum', ...lists]),
  formats: new Set(['date-time']),
  severalTypes: 'nullable',
  typed: true,
  textEnums: true,
  loneUnions: true,
  openness: 'unsaid',
  namedMembers: true,
  strict: false,
  memberNames: null,
};

export interface DialectRules {
  readonly subset: Subset;
  readonly name: RegExp;
  /** Characters of a description; null where no limit is known. */
  readonly description: number | null;
  /** Tools in one request; null where no limit is known. */
  readonly tools: number | null;
}

/** Names are the contract language's own, at most 64 characters, in every dialect: one tool has one name everywhere. */
export const rules: Readonly<Record<Dialect, DialectRules>> = {
  'openai-chat': { subset: openai, name: /^[a-zA-Z0-9_-]{1,64}$/, description: 1024, tools: 128 },
  'openai-responses': { subset: openai, name: /^[a-zA-Z0-9_-]{1,64}$/, description: 1024, tools: 128 },
  anthropic: { subset: anthropic, name: /^[a-zA-Z0-9_-]{1,64}$/, description: null, tools: null },
  gemini: { subset: gemini, name: /^[a-zA-Z_][a-zA-Z0-9_-]{0,62}$/, description: null, tools: 128 },
  // Many a client hands the schema on to its model as it came, so the root is plain here as well.
  mcp: { subset: { ...anthropic, memberNames: null }, name: /^[a-zA-Z0-9_.-]{1,64}$/, description: null, tools: null },
};
