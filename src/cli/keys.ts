import { describeKeyProblem, keyDigest, type KeyRecord, mintKey } from '../identity/api-keys.js';
import { createPool } from '../ledger/connection.js';
import { openKeys } from '../ledger/keys.js';
import { type Role, roles } from '../model.js';
import { readArgs, readConfig, UsageError } from './usage.js';

const options = {
  config: { type: 'string' }, tenant: { type: 'string' }, principal: { type: 'string' }, role: { type: 'string', multiple: true },
  subject: { type: 'string' }, purpose: { type: 'string', multiple: true }, tool: { type: 'string', multiple: true },
  'own-keys': { type: 'boolean' }, 'assert-subject': { type: 'boolean' }, expires: { type: 'string' },
} as const;

/** `callgate keys create`: prints the key once; only its digest is stored. */
export async function keys(args: string[]): Promise<number> {
  const [verb, ...rest] = args;
  if (verb !== 'create') throw new UsageError('the only verb is `create`; see `callgate help`');
  const { values } = readArgs(rest, options);
  if (!values.tenant || !values.principal || !values.role) throw new UsageError('--tenant, --principal and --role are needed');
  const config = readConfig(values.config);
  if (!config.database.url || !config.secrets.keyPepper) throw new Error('`database.url` and `secrets.key_pepper` are needed: set DATABASE_URL and CALLGATE_SECRETS_KEY_PEPPER');
  const { key, prefix } = mintKey();
  const record: KeyRecord = {
    prefix, digest: keyDigest(config.secrets.keyPepper, key), tenant: values.tenant, principal: values.principal, roles: values.role.map(readRole),
    subject: values.subject ?? null, purposes: values.purpose ?? [], tools: values.tool ?? '*',
    grants: { ownKeys: values['own-keys'] ?? false, assertSubject: values['assert-subject'] ?? false },
    expiresAt: values.expires === undefined ? null : readExpiry(values.expires), revokedAt: null,
  };
  const problem = describeKeyProblem(record);
  if (problem) throw new UsageError(problem);
  const pool = createPool({ url: config.database.url, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000 }, 1);
  try {
    await openKeys(pool).saveKey(record);
  } finally {
    await pool.end();
  }
  console.log(key);
  return 0;
}

function readRole(text: string): Role {
  const role = roles.find((known) => known === text);
  if (!role) throw new UsageError(`--role is one of ${roles.join(', ')}, not \`${text}\``);
  return role;
}

const dayMs = 86_400_000;

function readExpiry(text: string): Date {
  const days = /^(\d{1,5})d$/.exec(text)?.[1];
  if (!days) throw new UsageError('--expires takes days, for instance 90d');
  return new Date(Date.now() + Number(days) * dayMs);
}
