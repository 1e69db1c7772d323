/** What no single setting can say: relations between settings, and what production insists on. */
import { readKeyRing } from '../chain/keys.js';
import type { ConfigProblem } from './problem.js';
import type { Config } from './settings.js';
import { minimumSecretBytes, secretWeakness } from './secrets.js';

/** @returns where the value of a setting came from, or how to set it when nobody did */
export type SourceOf = (path: string) => string;

export function relationProblems(config: Config, sourceOf: SourceOf): ConfigProblem[] {
  const { execution, limits, reconcile } = config;
  const atMost: [string, number, string, number][] = [
    ['execution.patience', execution.patienceMs, 'execution.patience_max', execution.patienceMaxMs],
    ['execution.connect_timeout', execution.connectTimeoutMs, 'execution.upstream_deadline', execution.upstreamDeadlineMs],
    // a replica must not send under a lease that another one may have taken over
    ['execution.send_window', execution.sendWindowMs, 'execution.lease', execution.leaseMs],
    ['limits.arguments', limits.argumentsBytes, 'limits.body', limits.bodyBytes],
    ['reconcile.backoff_first', reconcile.backoffFirstMs, 'reconcile.backoff_max', reconcile.backoffMaxMs],
  ];
  const problems = atMost.filter(([, less, , more]) => less > more).map(([name, , bound]): ConfigProblem => ({
    source: sourceOf(name), value: null, message: `\`${name}\` is greater than \`${bound}\` (from ${sourceOf(bound)})`, mend: 'lower the one or raise the other',
  }));
  const unusable = config.secrets.signingKeys === null ? null : keySetProblem(config.secrets.signingKeys);
  if (unusable !== null) {
    problems.push({ source: sourceOf('secrets.signing_keys'), value: null, message: `\`secrets.signing_keys\` cannot be used: ${unusable}`, mend: 'make it with `callgate receipts keygen`' });
  }
  if (config.agent.port !== 0 && config.agent.port === config.control.port) {
    problems.push({
      source: sourceOf('control.port'), value: String(config.control.port), message: `\`control.port\` is the same as \`agent.port\` (from ${sourceOf('agent.port')})`,
      mend: 'give the two listeners different ports: agents must not reach the control plane',
    });
  }
  problems.push(...tlsProblems(config, sourceOf));
  return problems;
}

function tlsProblems(config: Config, sourceOf: SourceOf): ConfigProblem[] {
  const problem = (path: string, message: string, mend: string): ConfigProblem => ({ source: sourceOf(path), value: null, message, mend });
  const problems = (['agent', 'control'] as const).flatMap((name): ConfigProblem[] => {
    const { tlsCertFile, tlsKeyFile, tlsClientCaFile, tlsClientRequired } = config[name];
    if ((tlsCertFile === null) !== (tlsKeyFile === null)) return [problem(`${name}.tls_${tlsCertFile === null ? 'cert' : 'key'}_file`, `\`${name}.tls_cert_file\` and \`${name}.tls_key_file\` belong together`, 'set both, or none')];
    if (tlsClientCaFile !== null && tlsCertFile === null) return [problem(`${name}.tls_client_ca_file`, `\`${name}.tls_client_ca_file\` has no effect without TLS`, `set \`${name}.tls_cert_file\` and \`${name}.tls_key_file\``)];
    if (tlsClientRequired && tlsClientCaFile === null) return [problem(`${name}.tls_client_required`, `\`${name}.tls_client_required\` would let nobody in`, `set \`${name}.tls_client_ca_file\``)];
    return [];
  });
  if (config.identity.certificatesFile !== null && config.agent.tlsClientCaFile === null && config.control.tlsClientCaFile === null) {
    problems.push(problem('identity.certificates_file', 'no listener asks for the certificates of `identity.certificates_file`', 'set `agent.tls_client_ca_file` or `control.tls_client_ca_file`'));
  }
  return problems;
}

export function productionProblems(config: Config, sourceOf: SourceOf): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  if (config.database.url === null) {
    problems.push({ source: sourceOf('database.url'), value: null, message: 'production needs a database', mend: 'set DATABASE_URL=postgres://user:password@host:5432/database' });
  }
  const { keyPepper, sealKey } = config.secrets;
  for (const [path, secret] of [['secrets.key_pepper', keyPepper], ['secrets.seal_key', sealKey]] as const) {
    const weakness = secret === null ? 'is missing' : secretWeakness(secret);
    if (weakness !== null) problems.push(badSecret(path, `${weakness}; production needs at least ${minimumSecretBytes} random bytes`, sourceOf));
  }
  if (keyPepper !== null && keyPepper === sealKey) problems.push(badSecret('secrets.seal_key', 'is the same as `secrets.key_pepper`', sourceOf));
  if (config.secrets.signingKeys === null) {
    problems.push({
      source: sourceOf('secrets.signing_keys'), value: null, message: 'the secret `secrets.signing_keys` is missing: without it nobody can prove what happened',
      mend: 'make it with `callgate receipts keygen`',
    });
  }
  return problems;
}

function keySetProblem(text: string): string | null {
  try {
    readKeyRing(text);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

function badSecret(path: string, message: string, sourceOf: SourceOf): ConfigProblem {
  return { source: sourceOf(path), value: null, message: `the secret \`${path}\` ${message}`, mend: 'make one with `openssl rand -base64 48`' };
}
