import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config/index.js';
import { describeKeyProblem, keyDigest, keyPrefix, type KeyRecord, mintKey } from '../identity/api-keys.js';
import { createPool } from '../ledger/connection.js';
import { type KeyTable, type ListedKey, openKeys } from '../ledger/keys.js';
import { type Role, roles } from '../model.js';
import { readArgs, readConfig, UsageError } from './usage.js';

type Verb = (args: string[]) => Promise<void>;

/** `callgate keys`: a key is printed once, when it is made; only its digest is stored, and from then on its prefix names it. */
export async function keys(args: string[]): Promise<number> {
  const [verb = '', ...rest] = args;
  const verbs: Record<string, Verb> = { create, list, rotate, revoke };
  const run = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
  if (!run) throw new UsageError('the verbs are `create`, `list`, `rotate` and `revoke`; see `callgate help`');
  await run(rest);
  return 0;
}

const config = { config: { type: 'string' } } as const;

async function create(args: string[]): Promise<void> {
  const { values } = readArgs(args, {
    ...config, tenant: { type: 'string' }, principal: { type: 'string' }, role: { type: 'string', multiple: true }, subject: { type: 'string' },
    purpose: { type: 'string', multiple: true }, tool: { type: 'string', multiple: true }, 'own-keys': { type: 'boolean' }, 'assert-subject': { type: 'boolean' }, expires: { type: 'string' },
  });
  if (!values.tenant || !values.principal || !values.role) throw new UsageError('--tenant, --principal and --role are needed');
  const { key, prefix } = mintKey();
  const rights = {
    tenant: values.tenant, principal: values.principal, roles: values.role.map(readRole), subject: values.subject ?? null, purposes: values.purpose ?? [],
    tools: values.tool ?? ('*' as const), grants: { ownKeys: values['own-keys'] ?? false, assertSubject: values['assert-subject'] ?? false },
    expiresAt: values.expires === undefined ? null : new Date(Date.now() + readTime('--expires', values.expires)),
  };
  const problem = describeKeyProblem(rights);
  if (problem) throw new UsageError(problem);
  await withTable(values.config, async (table, { secrets }) => {
    const record: KeyRecord = { ...rights, prefix, digest: keyDigest(pepperOf(secrets), key), revokedAt: null };
    await table.saveKey(record);
  });
  console.log(key);
}

async function list(args: string[]): Promise<void> {
  const { values } = readArgs(args, { ...config, tenant: { type: 'string' }, format: { type: 'string', default: 'human' } });
  if (values.format !== 'human' && values.format !== 'json') throw new UsageError('`--format` is `human` or `json`');
  const listed = await withTable(values.config, (table) => table.listKeys(values.tenant ?? null));
  console.log(values.format === 'json' ? JSON.stringify(listed.map(asJson), null, 2) : asText(listed));
}

const defaultOverlap = '24h';

/** The new key has the rights of the old one, which goes on until the overlap is over: no agent is without a key in between. */
async function rotate(args: string[]): Promise<void> {
  const { values, positionals } = readArgs(args, { ...config, overlap: { type: 'string', default: defaultOverlap }, expires: { type: 'string' } }, 1);
  const old = readPrefix(positionals[0]);
  const overlapMs = readTime('--overlap', values.overlap);
  const lifeMs = values.expires === undefined ? null : readTime('--expires', values.expires);
  const { key, prefix } = mintKey();
  const until = await withTable(values.config, (table, { secrets }) => table.rotateKey(old, { prefix, digest: keyDigest(pepperOf(secrets), key), lifeMs }, overlapMs));
  if (until === null) throw new Error(`no key that is in force has the prefix \`${old}\`; see \`callgate keys list\``);
  console.log(key);
  console.error(`\`${old}\` is valid until ${until.toISOString()}; revoke it earlier once nobody uses it any more`);
}

/** Returns when no replica takes the keys any more: each asks the database again within `identity.key_cache`. */
async function revoke(args: string[]): Promise<void> {
  const { values, positionals } = readArgs(args, config, 100);
  if (positionals.length === 0) throw new UsageError('name the keys by their prefixes, `cg_` and eight characters');
  const prefixes = positionals.map(readPrefix);
  await withTable(values.config, async (table, { identity }) => {
    const missing: string[] = [];
    for (const prefix of prefixes) if (!(await table.revokeKey(prefix))) missing.push(prefix);
    await delay(identity.keyCacheMs);
    const revoked = prefixes.filter((prefix) => !missing.includes(prefix));
    if (revoked.length > 0) console.log(`revoked: ${revoked.join(' ')}`);
    if (missing.length > 0) throw new Error(`there is no key ${missing.map((prefix) => `\`${prefix}\``).join(', ')}; see \`callgate keys list\``);
  });
}

async function withTable<T>(file: string | undefined, work: (table: KeyTable, config: Config) => Promise<T>): Promise<T> {
  const read = readConfig(file);
  if (!read.database.url) throw new Error('`database.url` is needed: set DATABASE_URL');
  const pool = createPool({ url: read.database.url, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000 }, 1);
  try {
    return await work(openKeys(pool), read);
  } finally {
    await pool.end();
  }
}

function pepperOf({ keyPepper }: Config['secrets']): string {
  if (!keyPepper) throw new Error('`secrets.key_pepper` is needed: set CALLGATE_SECRETS_KEY_PEPPER');
  return keyPepper;
}

function asJson({ prefix, tenant, principal, roles: held, subject, purposes, tools, grants, createdAt, expiresAt, revokedAt, state }: ListedKey) {
  return {
    prefix, tenant, principal, roles: held, subject, purposes, tools, own_keys: grants.ownKeys, assert_subject: grants.assertSubject,
    created_at: createdAt.toISOString(), expires_at: expiresAt?.toISOString() ?? null, revoked_at: revokedAt?.toISOString() ?? null, state,
  };
}

function asText(listed: readonly ListedKey[]): string {
  const rows = listed.map((key) => [
    key.prefix, key.state, key.tenant, key.principal, key.roles.join(','), key.subject ?? '-', key.purposes.join(',') || '-', key.tools === '*' ? '*' : key.tools.join(','),
    day(key.createdAt), key.revokedAt ? `revoked ${day(key.revokedAt)}` : key.expiresAt ? day(key.expiresAt) : 'never',
  ]);
  const all = [['PREFIX', 'STATE', 'TENANT', 'PRINCIPAL', 'ROLES', 'SUBJECT', 'PURPOSES', 'TOOLS', 'CREATED', 'ENDS'], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  return all.map((row) => row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ').trimEnd()).join('\n');
}

const day = (at: Date): string => at.toISOString().replace(/:\d\d\.\d{3}Z$/, 'Z');

function readRole(text: string): Role {
  const role = roles.find((known) => known === text);
  if (!role) throw new UsageError(`--role is one of ${roles.join(', ')}, not \`${text}\``);
  return role;
}

/** A whole key is taken too, for its prefix: whoever has to revoke one in a hurry may have nothing else. */
function readPrefix(text: string | undefined): string {
  const prefix = text === undefined ? null : /^cg_[a-z2-7]{8}$/.test(text) ? text : keyPrefix(text);
  if (prefix === null) throw new UsageError('name a key by its prefix, `cg_` and eight characters');
  return prefix;
}

const units: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

function readTime(option: string, text: string): number {
  const [, count, unit = ''] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  if (!count) throw new UsageError(`${option} takes minutes, hours or days, for instance 30m, 24h or 90d`);
  return Number(count) * units[unit]!;
}
