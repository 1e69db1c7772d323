/**
 * Secrets of domain services, read where they are when a request is sent or a callback comes: from a variable, a mounted file, or a command of the operator's.
 * What a contract may name is a name: which files and commands there are is up to whoever runs the gateway.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SecretSource, UpstreamPlan } from '../contract/plan.js';

type Auth = NonNullable<UpstreamPlan['auth']>;

export interface CredentialOptions {
  env: Readonly<Record<string, string | undefined>>;
  /** Of the files. */
  secretsFolder: string;
  /** Of the commands; null: there are none. */
  commandsFolder: string | null;
  /** How long the output of a command is used before it is run again. */
  keptMs: number;
  now?: () => number;
}

export interface Credentials {
  /** The value of the header. A promise only while a command has to be waited for. @throws Error in words for the operator, without the secret. */
  read(service: string, auth: Auth): string | Promise<string>;
  /** The service did not take it: a command is asked anew by the next read. */
  refused(service: string, auth: Auth): void;
}

export interface ServiceSecrets extends Credentials {
  /** As it is there; undefined: not set, not there. A promise only while a command has to be waited for. @throws Error in words for the operator */
  secret(service: string, source: SecretSource): string | undefined | Promise<string>;
}

const commandTimeoutMs = 5_000;
const maxBytes = 64 * 1024;
/** Of its time, after which a new one is fetched while the old one is still used. */
const freshShare = 0.8;
/** Between two runs of a command that fails: whoever sends forged callbacks must not be able to start a process with each. */
const failedMs = 1_000;

export function openCredentials({ env, secretsFolder, commandsFolder, keptMs, now = () => performance.now() }: CredentialOptions): ServiceSecrets {
  const commands = new Map<string, Kept>();
  const keptOf = (service: string, name: string): Kept => {
    const key = `${name} ${service}`;
    const kept = commands.get(key) ?? new Kept(() => runCommand(commandsFolder, name, service, env), keptMs, now);
    commands.set(key, kept);
    return kept;
  };
  const secretOf = (service: string, { from, name }: SecretSource): string | undefined | Promise<string> => {
    if (from === 'env') return env[name];
    return from === 'file' ? readSecretFile(secretsFolder, name) : keptOf(service, name).read();
  };
  return {
    secret: secretOf,
    read(service, auth) {
      const secret = secretOf(service, auth.source);
      return secret instanceof Promise ? secret.then((text) => usable(text, auth)) : usable(secret, auth);
    },
    refused(service, { source: { from, name } }) {
      if (from === 'command') keptOf(service, name).drop();
    },
  };
}

const places: Record<SecretSource['from'], (name: string) => string> = {
  env: (name) => `the environment variable \`${name}\``,
  file: (name) => `the file \`${name}\` in \`upstream.secrets_folder\``,
  command: (name) => `the command \`${name}\` in \`upstream.commands_folder\``,
};

function usable(secret: string | undefined, { prefix, source }: Auth): string {
  const from = places[source.from](source.name);
  if (!secret) throw new Error(`${from}, which holds the credential of the service, is not set, not there or empty`);
  if (!/^[\x21-\x7e]+$/.test(secret)) throw new Error(`${from} holds characters that a header cannot carry; let it be the bare credential`);
  return prefix + secret;
}

/** Read anew each time: a secret store replaces it while the gateway runs. */
function readSecretFile(folder: string, name: string): string | undefined {
  try {
    const bytes = readFileSync(join(folder, name));
    return bytes.length > maxBytes ? undefined : bytes.toString().replace(/\r?\n$/, '');
  } catch {
    return undefined;
  }
}

/** No shell; what it writes to standard error is dropped, since it may hold what nobody should read. Its environment is ours without our own secrets. */
function runCommand(folder: string | null, name: string, service: string, env: CredentialOptions['env']): Promise<string> {
  if (folder === null) return Promise.reject(new Error(`the contract names the command \`${name}\`, and \`upstream.commands_folder\` is not set`));
  const theirs = Object.fromEntries(Object.entries(env).filter(([variable]) => !/^(CALLGATE_|DATABASE_URL$|REDIS_URL$)/.test(variable)));
  return new Promise((resolve, reject) => {
    execFile(join(folder, name), [service], { env: theirs, timeout: commandTimeoutMs, killSignal: 'SIGKILL', maxBuffer: maxBytes, windowsHide: true }, (error, stdout) => {
      if (!error) return resolve(stdout.replace(/\r?\n$/, ''));
      const how = typeof error.code === 'number' ? `ended with ${error.code}` : error.code ? `could not be used: ${String(error.code)}` : `was ended, or did not end within ${commandTimeoutMs} ms`;
      return reject(new Error(`the command \`${name}\` in \`upstream.commands_folder\` ${how}`));
    });
  });
}

/** One value at a time, shared by all who ask; fetched again in the background before its time is over, and used a second time over while that fails. */
class Kept {
  private value: { text: string; since: number } | null = null;
  private running: Promise<string> | null = null;
  private failed: { error: unknown; since: number } | null = null;

  constructor(private readonly fetch: () => Promise<string>, private readonly keptMs: number, private readonly now: () => number) {}

  read(): string | Promise<string> {
    const { value } = this;
    const age = value ? this.now() - value.since : Infinity;
    if (!value || age >= this.keptMs * 2) return this.run();
    if (age < this.keptMs * freshShare) return value.text;
    const running = this.run();
    running.catch(() => undefined);
    return age < this.keptMs ? value.text : running.catch(() => value.text);
  }

  drop(): void {
    this.value = null;
  }

  private run(): Promise<string> {
    const since = this.now();
    if (this.failed && since - this.failed.since < failedMs) return Promise.reject(this.failed.error);
    this.running ??= this.fetch().then(
      (text) => {
        this.running = this.failed = null;
        this.value = { text, since };
        return text;
      },
      (error: unknown) => {
        this.running = null;
        this.failed = { error, since: this.now() };
        throw error;
      },
    );
    return this.running;
  }
}
