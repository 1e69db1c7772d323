/** One operation to the draft of one tool. What the document cannot say is asked, in the words of whoever has to find it out. */
import type { JsonObject } from '../../../model.js';
import { gap } from '../../gaps.js';
import { importAnswers, type ImportedAnswers } from './answers.js';
import { commented, type Draft, explained } from './draft.js';
import type { Operation } from './operations.js';
import { importRequest, type ImportedRequest } from './request.js';
import type { Budget } from './schema.js';
import { clean, objectOf, shortened, textOf } from './source.js';

type Members = { [name: string]: Draft };

/** @param near the reads that are likeliest to find what it left behind */
export function importTool(root: JsonObject, operation: Operation, near: () => readonly Operation[], budget: Budget): Draft {
  const request = importRequest(root, operation, budget);
  const answers = importAnswers(root, operation, budget);
  const write = operation.method !== 'GET';
  const members: Members = {
    version: '0.1.0',
    effect: write ? effect(operation) : commented('A GET is safe by definition (RFC 9110). If this one changes something, it needs all that a write needs.', 'none'),
    ...(write ? { entity: entity(request) } : {}),
    purpose: purpose(operation),
    args: request.args,
    ...(write ? decisions(request) : {}),
    http: request.notes.length === 0 ? request.http : commented(request.notes.join('\n'), request.http),
    ...(write ? settlement(request, answers, near()) : {}),
    ...(answers.notFound ? { not_found: 'status == 404' } : {}),
    result: answers.result,
  };
  return commented(`${operation.method} ${clean(operation.path)}${operation.source['deprecated'] === true ? ', deprecated' : ''}`, explained(members));
}

function purpose({ source }: Operation): Draft {
  const [summary, description] = [shortened(textOf(source['summary']), 300), shortened(textOf(source['description']), 600)];
  const [first, rest] = description.toLowerCase().startsWith(summary.toLowerCase()) ? [description, ''] : [summary, description];
  const text = clean(rest === '' ? first : `${first.replace(/[.!?]?$/, '.')} ${rest}`);
  return text === '' ? gap('what it does, in one sentence for the model') : text;
}

function effect({ method }: Operation): Draft {
  return commented(
    `What is left behind by a ${method}? \`write\` when another call can take it back, \`irreversible\` when not. \`none\` when it only reads; then remove entity, authority, preconditions, identity, idempotency, effects, errors, readback and async below.`,
    gap('write, irreversible or none'),
  );
}

function entity({ args }: ImportedRequest): Draft {
  const ids = Object.keys(objectOf(args['properties'])).filter((name) => /(^|_)id$|Id$/.test(name));
  const hint = ids.length === 0 ? '' : ` Perhaps the one that ${ids.slice(0, 5).map((name) => `args.${name}`).join(' or ')} names.`;
  return commented(
    `On which one thing does it act, so that two calls on it wait for each other and its state is read first? Declare it under \`entities\` and name it here.${hint} Remove the line if there is none.`,
    gap('the name of an entity, or remove the line'),
  );
}

/** What has to be known before anything is sent. */
function decisions({ args }: ImportedRequest): Members {
  const suspects = Object.keys(objectOf(args['properties'])).filter((name) => /amount|price|quantity|currency|limit|account|recipient|beneficiary|customer|user|owner|role|permission/i.test(name));
  const hint = suspects.length === 0 ? '' : ` Look at ${suspects.slice(0, 8).map((name) => `args.${name}`).join(', ')}.`;
  return {
    authority: commented(
      `Which arguments decide something that text of a model must not decide alone: amounts, recipients, permissions?${hint} Each then needs a precondition over something observed or bound, or a policy. What follows from who asks belongs under \`bind\`.`,
      gap('a list such as [args.amount], or []'),
    ),
    preconditions: commented(
      'What has to hold before it is sent, and what is the model told when it does not? For instance:\n- { id: in_balance, check: args.amount <= order.balance, otherwise: { code: TOO_MUCH, next: ask } }',
      gap('a list of preconditions, or []'),
    ),
    identity: {
      scope: commented('Within what is a second equal call the same call: the intent of a user, a session, one call, the tenant?', gap('intent, session, call or tenant')),
      arguments: commented('Which arguments make two calls the same one, so that the second has no second effect?', gap('a list of arguments')),
    },
  };
}

/** What has to be known to find out, and to say, what happened. */
function settlement({ key, conditional }: ImportedRequest, { errors, accepted }: ImportedAnswers, reads: readonly Operation[]): Members {
  const conflict = commented('The version has changed since it was observed.', { when: 'status == 412', outcome: 'rejected', class: 'version_conflict', next: 'refresh' });
  const rules = conditional ? [conflict, ...errors] : errors;
  return {
    ...(key === null ? {} : { idempotency: idempotency(key) }),
    effects: {
      creates: commented('What is there afterwards that was not there before? Or say under `changes` which fields of the entity are others.', gap('what it creates, or `changes` instead')),
      never: commented('What must be as it was, and is observed again after the commit?', gap('a list such as [order.status], or []')),
    },
    ...(rules.length === 0 ? {} : { errors: rules }),
    readback: readback(key, reads),
    ...(accepted ? { async: asynchronous() } : {}),
  };
}

function idempotency(key: string): Draft {
  return {
    honoured: commented(`The document names ${key} for it. Is the effect of a second request with the same key really none?`, true),
    window: commented('How long does the service remember a key?', gap('a duration such as 24h')),
  };
}

function readback(key: string | null, reads: readonly Operation[]): Draft {
  const candidates = reads.slice(0, 5).map(({ name, path }) => `${name} (${clean(path)})`);
  const near = candidates.length === 0 ? 'The document has no read near it.' : `Reads near it: ${candidates.join(', ')}.`;
  const otherwise = key === null ? '`on_unknown: review`, so that a person settles it' : 'nothing, if the key alone is to settle it';
  return commented(
    `After a time-out, how is it found out whether this very call happened? ${near} If there is no such read, replace the whole member by ${otherwise}.`,
    {
      tool: gap('a read tool that finds what this operation left behind'),
      args: commented('They, or `committed`, have to read operation.id, or last week’s equal effect is taken for this one. Where the service never shows it, hold `committed` and `absent` against what was observed before.', gap('for instance { request_key: operation.id }')),
      committed: gap('over `result`: it happened, just as it was asked for'),
      absent: gap('over `result`: there is nothing of it'),
      settle_after: commented('For how long after the last byte may the service still commit?', gap('a duration such as 10s')),
    },
  );
}

function asynchronous(): Draft {
  return {
    accepted: 'status == 202',
    poll: 'readback',
    deadline: commented('202 is documented: after how long is an accepted call that is not there a matter for a person?', gap('a duration such as 1h')),
  };
}
