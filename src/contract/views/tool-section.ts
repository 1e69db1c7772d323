/** One tool of a service page. */
import type { Json, JsonObject } from '../../model.js';
import type { ToolSource } from '../document.js';
import type { ToolPlan } from '../plan.js';
import { isSchemaObject } from '../schema-subset.js';
import { type GovernedTool, type Settlement, settlement } from './governed.js';
import { blocks, code, duration, list, prose, table } from './markdown.js';
import { unmappedReads, unmappedWrites } from './unmapped.js';
import { inWords } from './words.js';

export function toolSection({ plan, source }: GovernedTool): string {
  const writes = plan.effect !== 'none';
  return blocks(
    `### ${plan.name}`,
    `Version ${plan.version}, ${effects[plan.effect]}. ${prose(plan.purpose)}`,
    list(
      [plan.useWhen ? `Use when: ${prose(plan.useWhen)}` : '', plan.notWhen ? `Do not use when: ${prose(plan.notWhen)}` : ''].filter(
        (each) => each !== '',
      ),
    ),
    '#### What may be proposed',
    fields(plan.argsSchema, source.args),
    examples(plan),
    '#### Who may',
    whoMay(source),
    '#### What is checked before anything is sent',
    checks(plan, source),
    ...(writes ? ['#### Approval', approval(plan)] : []),
    '#### What is done',
    deeds(plan, source),
    '#### What can go wrong, and what then',
    failures(plan, source),
    ...(writes ? ['#### How an unknown outcome is settled', settling(plan, source)] : []),
    '#### What is answered',
    fields(plan.resultSchema, source.result),
    plan.untrusted ? 'What it returns was written by others; a session that is told it is marked, and approvals and policies may ask for more in it.' : '',
    plan.public.length > 0 ? `Shown of the service’s refusals: ${plan.public.map(code).join(', ')}; nothing else that it says.` : '',
    source.partial ? `Items may fail one by one: of ${code(source.partial.items)} those with ${code(source.partial.failed)}.` : '',
    plan.durability === 'relaxed' ? 'Its record may be lost with the database in the second after it was answered.' : '',
    plan.redact.length > 0 ? `Never recorded in clear: ${plan.redact.map(code).join(', ')}.` : '',
    `Digest: ${code(plan.digest)}`,
  );
}

const effects: Readonly<Record<ToolPlan['effect'], string>> = {
  none: 'a read: it changes nothing',
  write: 'a write',
  irreversible: '**a write that cannot be undone**',
};

/** The members that a schema names at its top; what is inside them is told by their type. */
function fields(closed: JsonObject, written: JsonObject): string {
  const properties = isSchemaObject(written['properties']) ? written['properties'] : {};
  const required = (closed['required'] ?? []) as string[];
  const rows = Object.entries(properties).map(([name, member]) => {
    const schema = isSchemaObject(member) ? member : {};
    return [code(name), prose(kind(schema)), required.includes(name) ? 'yes' : 'no', prose(limits(schema))];
  });
  const combined = ['allOf', 'anyOf', 'oneOf', 'if', '$ref'].filter((keyword) => keyword in written);
  return blocks(
    table(['name', 'kind', 'required', ''], rows) || 'No members.',
    combined.length > 0 ? `Which of them go together is said by ${combined.map(code).join(', ')} in the contract.` : '',
  );
}

function kind(schema: JsonObject): string {
  const { type, enum: values, items } = schema;
  if (Array.isArray(values)) return 'one of a few';
  if (type === 'array') return isSchemaObject(items) ? `list of ${kind(items)}` : 'list';
  if (type !== undefined) return [type].flat().join(' or ');
  return 'const' in schema ? 'always the same' : '$ref' in schema ? String(schema['$ref']).split('/').at(-1)! : 'one of several';
}

function limits(schema: JsonObject): string {
  const said = Object.entries(schema).flatMap(([keyword, value]) => {
    const words: string = inWords(keyword, value as Json);
    return words === '' ? [] : [words];
  });
  return [typeof schema['description'] === 'string' ? schema['description'] : '', ...said].filter((each) => each !== '').join(' ');
}

function examples({ examples: good, counterexamples: bad }: ToolPlan): string {
  return list([
    ...good.map(({ args, why }) => `For instance ${code(JSON.stringify(args))}${why ? `: ${prose(why)}` : ''}`),
    ...bad.map(({ args, why }) => `Not ${code(JSON.stringify(args))}: ${prose(why)}`),
  ]);
}

function whoMay({ bind = {}, authority = [] }: ToolSource): string {
  return list([
    'Whom the [policies](#policies) permit, asked for the tool and, where it acts on an entity, for that one as it was just read.',
    ...Object.entries(bind).map(
      ([name, value]) =>
        `${code(name)} is ${code(String(value))}, filled in by the gateway. It is never shown to a model and never taken from one.`,
    ),
    ...authority.map((field) => `${code(field)} decides something. It is held by a rule below or by a policy, not by the model’s word.`),
  ]);
}

function checks(plan: ToolPlan, { expect }: ToolSource): string {
  const { relations, preconditions, entity, touches, observations, lets, name } = plan;
  const tables = [...(entity ? [entity] : []), ...touches.flatMap((touched) => (touched.governed ? [touched.entity] : []))];
  const legal = tables.flatMap((table) => {
    const rows = Object.entries(table.transitions).flatMap(([state, actions]) =>
      Object.hasOwn(actions, name) ? [`${prose(state)} (then ${prose(actions[name]!)})`] : [],
    );
    return rows.length > 0 ? [`The state of the ${table.name}${table.kept ? ', which the gateway keeps' : ''}: legal in ${rows.join(', ')}.`] : [];
  });
  const rule = ({ id, check, otherwise: { code: refusal, next } }: ToolPlan['relations'][number]): string =>
    `${prose(id)}: ${code(check.source)}. Otherwise ${code(refusal)}, next ${code(next)}.`;
  return list([
    'The arguments, exactly as above; anything further is refused.',
    ...relations.map(rule),
    ...legal,
    ...(entity?.observation?.version && plan.effect !== 'none'
      ? [`The version of the ${entity.name}: ${versions[expect ?? 'observed']}.`]
      : []),
    ...observations.map(observation),
    ...lets.map(({ name: named, value }) => `${code(named)} stands for ${code(value.source)}.`),
    ...preconditions.map(rule),
  ]);
}

const versions = { seen: 'the caller must have read it before', observed: 'the one that the caller knows, or the one just read' } as const;

function observation({ name, tool, each, maxAgeMs }: ToolPlan['observations'][number]): string {
  const many = each ? `, once for each of ${code(each.list.source)}, of which there may be ${each.max}` : '';
  return `${code(name)} is read with ${code(tool.name)}${many}, at most ${duration(maxAgeMs)} before.`;
}

function approval({ approvals }: ToolPlan): string {
  if (approvals.length === 0) return 'None is needed.';
  const rows = approvals.map(({ when, by, approvals: count, expiresMs, summary }) => [
    code(when.source),
    `${count} by ${by}`,
    duration(expiresMs),
    summary ? code(summary.source) : '',
  ]);
  return blocks(
    table(['when', 'approvals', 'within', 'what is shown'], rows),
    'Where several rules apply, the strictest replaces the others.',
  );
}

function deeds(plan: ToolPlan, { http, effects: declared, idempotency }: ToolSource): string {
  const key = idempotency?.honoured ? `, under a key that the service keeps for ${idempotency.window ?? 'a time'}` : '';
  const sent = `${code(`${http.method} ${http.path}`)} is sent${key}.`;
  if (plan.effect === 'none') return list([sent]);
  return list([
    sent,
    ...(declared?.creates ? [`It creates: ${prose(declared.creates)}.`] : []),
    ...(declared?.changes?.length ? [`It changes: ${declared.changes.map(code).join(', ')}.`] : []),
    ...(plan.touches.length > 0 ? [`It may change as well: ${plan.touches.map(({ entity }) => prose(entity.name)).join(', ')}.`] : []),
    declared?.never?.length
      ? `It never changes: ${declared.never.map(code).join(', ')}. That is read again afterwards; a difference goes to a person.`
      : 'Nothing is declared that it must never change.',
    sameness(plan),
    ...(plan.compensate ? [`A person can take it back with ${code(plan.compensate.tool)}.`] : []),
  ]);
}

function sameness({ identity: { arguments: named, scope, windowMs }, repeatable }: ToolPlan): string {
  const agreeing = named ? named.map(code).join(', ') : 'all arguments';
  const within = `within one ${scope}${windowMs === null ? '' : ` and ${duration(windowMs)}`}`;
  const repeat = repeatable ? '; a deliberate repeat says so' : '';
  return `Two calls are the same effect, done once, when they agree in ${agreeing} ${within}${repeat}.`;
}

function failures(plan: ToolPlan, { errors = [], not_found: missing }: ToolSource): string {
  const mapped = errors.map(({ when, outcome, code: own, next }) => [
    code(when),
    outcomes[outcome],
    own ? code(own) : '',
    next ? code(next) : '',
  ]);
  const absent = missing ? [[code(missing), 'refused, like what the caller may not see', code('NOT_FOUND'), code('ask')]] : [];
  const unmapped = plan.effect === 'none' ? unmappedReads : unmappedWrites;
  return blocks(
    table(
      ['the service answers', 'means', 'code', 'next'],
      [...mapped, ...absent, ...unmapped.map(({ answers, means, code: own, next }) => [answers, means, own ? code(own) : '', code(next)])],
    ),
    retries(plan),
  );
}

const outcomes = {
  committed: 'done',
  accepted: 'accepted, not done yet',
  rejected: 'refused, nothing done',
  not_committed: 'nothing done',
  unknown: 'unknown',
} as const;

function retries({ effect, retry: { attempts, elapsedMs } }: ToolPlan): string {
  const careful =
    effect === 'none'
      ? ''
      : '; the same bytes under the same key each time, and only while nothing can have happened or the key makes it harmless';
  return `At most ${attempts} attempts within ${duration(elapsedMs)}${careful}.`;
}

function settling(plan: ToolPlan, { readback, async: accepted }: ToolSource): string {
  const settled = duration((plan.readback?.settleAfterMs ?? 0) + (plan.readback?.lagMs ?? 0));
  const how: Record<Settlement, string[]> = {
    read_back: readback
      ? [
          `${code(readback.tool)} is asked with ${code(JSON.stringify(readback.args))}.`,
          `It was done when ${code(readback.committed)}.`,
          `It was not done when ${code(readback.absent)}, read at least ${settled} after the last byte was sent.`,
          'Before that absence proves nothing.',
          'Anything else, or no evidence in time, goes to a person.',
          plan.verify === 'always' ? 'A success is verified the same way.' : 'A success that is clear is not verified.',
        ]
      : [],
    send_again_under_the_same_key: [
      'It is sent again under the same key while the service still keeps it; after that it goes to a person.',
    ],
    review: ['Nothing can tell. It goes to a person.'],
  };
  return list([
    ...how[settlement(plan)],
    ...(accepted ? [`Accepted (${code(accepted.accepted)}) is not done: it is read back until it is, for ${accepted.deadline}.`] : []),
  ]);
}
