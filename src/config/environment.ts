/** `CALLGATE_SECTION_SETTING` and the common names, from the environment. An empty value counts as unset. */
import { nearest } from '../contract/nearest.js';
import type { Given } from './file.js';
import type { ConfigProblem } from './problem.js';
import { type Setting, settings } from './registry.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Names under the prefix that are read elsewhere: where the file is. */
const otherNames = ['CALLGATE_CONFIG'];

/**
 * Kubernetes tells every container where each service is, and calls that `CALLGATE_PORT=tcp://10.0.0.1:8080` and the
 * like when the service is named callgate, or `CALLGATE_AGENT_PORT` when it is named callgate-agent. Those are not ours.
 */
const serviceLinkName = /_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)/;
const serviceLinkValue = /^(tcp|udp|sctp):\/\//;

export function readEnvironment(environment: Environment, folder: string): { given: Given[]; problems: ConfigProblem[] } {
  const set = Object.entries(environment).flatMap(([name, value]) =>
    value === undefined || value === '' || serviceLinkValue.test(value) ? [] : [[name, value] as const]);
  const values = new Map(set);
  const given = settings.flatMap((setting) =>
    // the winner comes last: later values replace earlier ones
    setting.variables.toReversed().flatMap((name): Given[] => {
      const value = values.get(name);
      return value === undefined ? [] : [{ setting, raw: fromText(setting, value), source: name, folder }];
    }));
  const known = settings.flatMap(({ variables }) => variables).concat(otherNames);
  const problems = [...values.keys()]
    .filter((name) => name.startsWith('CALLGATE_') && !known.includes(name) && !serviceLinkName.test(name))
    .map((name) => unknownVariable(name, known));
  return { given, problems };
}

/** Text as the file would have said it; what cannot be converted stays text and is refused by the schema. */
function fromText({ meaning }: Setting, value: string): unknown {
  if (meaning.kind === 'number') return /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  if (meaning.kind === 'boolean') return value === 'true' || (value === 'false' ? false : value);
  return meaning.kind === 'choice' ? value.toLowerCase() : value;
}

/** An error rather than a warning: a misspelt limit that is silently not applied is found out too late. */
function unknownVariable(name: string, known: readonly string[]): ConfigProblem {
  const close = nearest(name, known);
  return {
    source: name, value: null, message: 'there is no such setting',
    mend: close ? `did you mean ${close}? Otherwise unset it` : 'unset it, or see docs/configuration.md for what there is',
  };
}
