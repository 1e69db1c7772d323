/** Where a contract's tools are sent: the only place that reads the environment, after the digest was taken. */
import type { ContractDefaults } from './defaults.js';
import type { CallbacksSource, UpstreamSource } from './document.js';
import { durationMs } from './duration.js';
import type { UpstreamPlan } from './plan.js';

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

export function upstreamPlan(service: string, source: UpstreamSource, base: string, env: Environment, defaults: ContractDefaults): UpstreamPlan {
  const { auth, limits = {} } = source;
  return Object.freeze({
    service,
    origin: new URL(base).origin,
    auth: auth ? authPlan(auth) : null,
    concurrency: limits.concurrency ?? defaultConcurrency,
    connectTimeoutMs: limits.connect_timeout ? durationMs(limits.connect_timeout) : defaults.connectTimeoutMs,
    deadlineMs: limits.deadline ? durationMs(limits.deadline) : defaults.upstreamDeadlineMs,
    callbacks: source.callbacks ? callbacksPlan(source.callbacks, env) : null,
  });
}

/** As Standard Webhooks recommends. */
const defaultToleranceMs = 5 * 60_000;

function callbacksPlan({ secret_from, previous_secret_from, tolerance }: CallbacksSource, env: Environment): UpstreamPlan['callbacks'] {
  const names = [secret_from, ...(previous_secret_from ? [previous_secret_from] : [])].map((from) => from.slice('env:'.length));
  return {
    secrets: () => names.flatMap((name, n) => (n > 0 && !env[name] ? [] : [signingKey(name, env[name])])),
    toleranceMs: tolerance ? durationMs(tolerance) : defaultToleranceMs,
  };
}

const fewestKeyBytes = 24;

/** `whsec_` and base64, with or without the prefix. */
function signingKey(name: string, secret: string | undefined): Buffer {
  const text = secret?.replace(/^whsec_/, '') ?? '';
  const key = Buffer.from(text, 'base64');
  if (key.length >= fewestKeyBytes && /^[A-Za-z0-9+/]+={0,2}$/.test(text)) return key;
  throw new Error(`the environment variable \`${name}\`, which holds the secret of the service's callbacks, is not \`whsec_\` and at least ${fewestKeyBytes} bytes in base64`);
}

function authPlan({ header, value_from, prefix = '' }: NonNullable<UpstreamSource['auth']>): NonNullable<UpstreamPlan['auth']> {
  const [from, name = ''] = value_from.split(':') as ['env' | 'file' | 'command', string];
  return { header: header.toLowerCase(), source: { from, name }, prefix };
}
