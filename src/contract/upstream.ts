/** Where a contract's tools are sent: the only place that reads the environment, after the digest was taken. */
import type { ContractDefaults } from './defaults.js';
import type { CallbacksSource, UpstreamSource } from './document.js';
import { durationMs } from './duration.js';
import type { SecretSource, UpstreamPlan } from './plan.js';

export type Environment = Readonly<Record<string, string | undefined>>;

const variable = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;
const defaultConcurrency = 32;

/** What the gateway itself is configured by, its secrets among it: a contract that could read it could send it anywhere. */
export function isGatewaysOwn(name: string): boolean {
  return /^CALLGATE_|^(DATABASE|REDIS)_URL$|^OTEL_/.test(name);
}

/** @throws RangeError naming the variable that is not set, or not the contract's. An empty one counts as not set, as in a shell's `:-`. */
export function substitute(text: string, env: Environment): string {
  return text.replace(variable, (_, name: string, fallback: string | undefined) => {
    if (isGatewaysOwn(name)) throw new RangeError(`the environment variable \`${name}\` is the gateway’s own`);
    const value = env[name] || fallback;
    if (value === undefined) throw new RangeError(`the environment variable \`${name}\` is not set`);
    return value;
  });
}

export function mentionsEnvironment(text: string): boolean {
  return /\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}/.test(text);
}

/** The URL without a slash at its end. @throws TypeError when it is not a plain http or https base. */
export function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '' || /[?#]/.test(text)) {
    throw new TypeError('it is not an absolute http or https URL without credentials, query and fragment');
  }
  return url.href.replace(/\/+$/, '');
}

export function upstreamPlan(service: string, source: UpstreamSource, base: string, defaults: ContractDefaults): UpstreamPlan {
  const { auth, limits = {} } = source;
  return Object.freeze({
    service,
    origin: new URL(base).origin,
    auth: auth ? authPlan(auth) : null,
    concurrency: limits.concurrency ?? defaultConcurrency,
    connectTimeoutMs: limits.connect_timeout ? durationMs(limits.connect_timeout) : defaults.connectTimeoutMs,
    deadlineMs: limits.deadline ? durationMs(limits.deadline) : defaults.upstreamDeadlineMs,
    callbacks: source.callbacks ? callbacksPlan(source.callbacks) : null,
  });
}

/** As Standard Webhooks recommends. */
const defaultToleranceMs = 5 * 60_000;

function callbacksPlan({ secret_from, previous_secret_from, tolerance }: CallbacksSource): UpstreamPlan['callbacks'] {
  return {
    secrets: [secret_from, ...(previous_secret_from ? [previous_secret_from] : [])].map(secretSource),
    toleranceMs: tolerance ? durationMs(tolerance) : defaultToleranceMs,
  };
}

function authPlan({ header, value_from, prefix = '' }: NonNullable<UpstreamSource['auth']>): NonNullable<UpstreamPlan['auth']> {
  return { header: header.toLowerCase(), source: secretSource(value_from), prefix };
}

function secretSource(text: string): SecretSource {
  const [from, name = ''] = text.split(':') as [SecretSource['from'], string];
  return { from, name };
}
