/** A service as a person reads it who approves its tools: what each does, who may, what is checked, what can go wrong and what then. */
import { posix } from 'node:path';
import { type ContractDocument, type EntitySource, keptByGateway } from '../document.js';
import type { Catalogue } from '../plan.js';
import { type GovernedTool, governedTools } from './governed.js';
import { blocks, code, fenced, list, prose, table } from './markdown.js';
import { stateDiagram } from './state-diagram.js';
import { toolSection } from './tool-section.js';

/** Pages by file name: one for each service, and `README.md` over them. */
export function documentation(catalogue: Catalogue): Map<string, string> {
  const services = new Map<string, GovernedTool[]>();
  for (const tool of governedTools(catalogue)) services.set(tool.plan.service, [...(services.get(tool.plan.service) ?? []), tool]);
  const pages = [...services].map(([service, tools]): [string, string] => [`${service}.md`, servicePage(service, tools, catalogue)]);
  return new Map([['README.md', overview(services, catalogue)], ...pages]);
}

function overview(services: ReadonlyMap<string, readonly GovernedTool[]>, catalogue: Catalogue): string {
  const rows = [...services].map(([service, tools]) => {
    const count = (effect: string): string => String(tools.filter(({ plan }) => plan.effect === effect).length);
    return [`[${service}](${service}.md)`, count('none'), count('write'), count('irreversible')];
  });
  return `${blocks('# Services', origin(catalogue), table(['service', 'reads', 'writes', 'irreversible writes'], rows))}\n`;
}

function origin({ digest }: Catalogue): string {
  return `Written by \`callgate docs\` from the contracts with the digest \`${digest}\`. What is said here is what the gateway does.`;
}

function servicePage(service: string, tools: readonly GovernedTool[], catalogue: Catalogue): string {
  const documents = [...new Set(tools.map(({ document }) => document))];
  const rows = tools.map(({ plan: { name, version, effect, entity, purpose } }) => [
    `[${name}](#${name.toLowerCase()})`,
    version,
    effect,
    entity?.name ?? '',
    prose(purpose),
  ]);
  return `${blocks(
    `# ${service}`,
    origin(catalogue),
    ...documents.map(upstream),
    '## Tools at a glance',
    table(['tool', 'version', 'effect', 'on', 'purpose'], rows),
    ...documents.flatMap(({ entities }) => Object.entries(entities ?? {}).map(([name, entity]) => entitySection(name, entity))),
    '## Tools',
    ...tools.map(toolSection),
    policies(documents, catalogue),
  )}\n`;
}

function upstream({ upstream: { base_url: url, auth, limits } }: ContractDocument): string {
  return list([
    `Calls go to ${code(url)}.`,
    auth
      ? `Each carries a credential in ${code(auth.header)}, read from ${code(auth.value_from)} when it is sent; it is stored nowhere.`
      : 'They carry no credential.',
    `One exchange may take ${limits?.deadline ?? 'as long as the gateway’s default'}.`,
  ]);
}

function entitySection(name: string, entity: EntitySource): string {
  const { id, observe, state, states = [], initial = [], transitions = {} } = entity;
  const kept = keptByGateway(entity);
  const rows = states.map((each) => {
    const actions = Object.entries(transitions[each] ?? {}).map(([action, next]) => `${code(action)} → ${prose(next)}`);
    return [prose(each), actions.join(', ') || 'nothing'];
  });
  return blocks(
    `## Entity ${name}`,
    list([
      `Which one a call is on: ${code(id)}.`,
      ...(observe ? [`It is read with ${code(observe.tool)}, at most ${observe.max_age} before a decision.`] : []),
      ...(kept ? [`Its state is kept by the gateway, from ${prose(initial[0] ?? '')} on, and moved by what was committed.`] : state ? [`Its state is ${code(state)}.`] : []),
      'At most one write on it is open at a time.',
    ]),
    states.length > 0 ? fenced('mermaid', stateDiagram(entity)) : 'It has no table of states.',
    table(['in state', 'may be done'], rows),
    states.length > 0 ? 'What is not in the table is refused before anything is sent.' : '',
  );
}

/** As they are written: a summary of a policy would be another policy. */
function policies(documents: readonly ContractDocument[], catalogue: Catalogue): string {
  const named = catalogue.policies.filter(({ file }) =>
    documents.some(({ policies: own }) => [own ?? []].flat().some((each) => posix.normalize(each) === file)),
  );
  if (named.length === 0) return blocks('## Policies', 'None is named in this service’s contracts. What no policy permits is denied.');
  return blocks(
    '## Policies',
    'What none of these permits is denied. A policy that fails denies as well.',
    ...named.map(({ file, text }) => blocks(`${code(file)}:`, fenced('cedar', text))),
  );
}
