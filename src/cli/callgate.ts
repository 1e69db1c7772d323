/** The `callgate` command: one file per subcommand. */
import { endsSoon } from './short-lived.js';
import { UsageError } from './usage.js';

const usage = `callgate: the model proposes; Callgate decides, executes at most once, and can prove what happened.

  callgate serve    [--config FILE]             run the gateway on the configured Postgres (and Redis)
  callgate migrate  [--config FILE] [--grant ROLE] [--pack-receipts]
                                                bring the database schema up to date; give ROLE what a gateway needs, and no more
  callgate check    [FOLDER] [--format json]    every diagnostic of contracts and policies (or sarif); exit 1 on errors
                    [--exhaustive]              and every state with every action; exit 1 where a table contradicts itself
                    [--limit DIALECT[=COUNT]]   and the view for a dialect within what its provider, or COUNT, admits
  callgate diff     OLD NEW [--format json]     what a change of contracts means; exit 1 where a version does not say so
  callgate import openapi FILE [--tag T] [--path P] [--operation ID] [--select GLOB] [--service NAME] [--out NEW_FILE]
                                                a draft contract with the chosen operations and what their document leaves open
  callgate compile  [FOLDER] [--out DIR]        the views that models and evaluations get, and what they cost; exit 1 over a
                    [--limit DIALECT=COUNT]     provider's limit, unless COUNT (or none) is another; DIALECT.tokens=COUNT, .bytes
  callgate policy test [FOLDER] [--cases FILE] [--format json]
                                                the cases of the folder's *.cases.yaml; exit 1 where policies decide otherwise
  callgate explain  ID [--url URL] [--key KEY] [--contracts FOLDER]
                                                why the call of a receipt or an operation was admitted or refused, and what became of it
  callgate docs     [FOLDER] --out DIR          a page for each service, for those who approve its tools
  callgate keys create --tenant T --principal P --role ROLE [--subject S] [--purpose P] [--tool NAME]
                    [--own-keys] [--assert-subject] [--expires 90d]
  callgate keys list   [--tenant T] [--format json]
                                                prefix, state, owner, rights, when made, when it ends
  callgate keys rotate PREFIX [--overlap 24h] [--expires 90d]
                                                a new key with the same rights; the old one goes on for the overlap
  callgate keys revoke PREFIX...                returns when no replica takes them any more
  callgate receipts export --url CONTROL --key KEY --out FILE
                                                all receipts of a tenant, in order and with their signatures; goes on where it stopped
  callgate receipts verify FILE --keys FILE [--known SEQUENCE:LINK]
                                                offline: is every receipt there, as it was written; exit 1 at the first that is not
  callgate receipts reconcile FILE --seen FILE [--tool NAME]
                                                effects that a service saw and receipts do not have, and the other way round; exit 1 if any
  callgate receipts erase --tenant T --subject S --by PERSON [--config FILE]
                                                what receipts and stored answers say about a person; identities, outcomes and proofs stay
  callgate receipts keygen [--keys FILE] [--id ID]
                                                the keys that sign receipts: new ones, or FILE with another that takes over
  callgate dev                                  everything for development: embedded Postgres, example service, keys
  callgate demo                                 the refund that succeeded twice, and once
`;

/** Each loaded when it is asked for: a check needs neither server nor database. */
const commands: Record<string, () => Promise<(args: string[]) => Promise<number>>> = {
  serve: async () => (await import('./serve.js')).serve,
  migrate: async () => (await import('./migrate.js')).migrateDatabase,
  check: async () => (await import('./check.js')).check,
  diff: async () => (await import('./diff.js')).diff,
  explain: async () => (await import('./explain.js')).explain,
  compile: async () => (await import('./compile.js')).compile,
  docs: async () => (await import('./docs.js')).docs,
  import: async () => (await import('./import.js')).importContract,
  policy: async () => (await import('./policy.js')).policy,
  keys: async () => (await import('./keys.js')).keys,
  receipts: async () => (await import('./receipts.js')).receipts,
  dev: async () => (await import('./dev.js')).dev,
  demo: async () => (await import('./demo.js')).demo,
};

/** They go on until they are stopped. */
const serving = new Set(['serve', 'dev', 'demo']);

const [name, ...args] = process.argv.slice(2);
const command = name === undefined ? undefined : commands[name];
if (!command) {
  const asked = name === undefined || name === 'help' || name === '--help';
  (asked ? console.log : console.error)(asked ? usage : `callgate: there is no command \`${name}\`.\n\n${usage}`);
  process.exit(asked ? 0 : 2);
}
if (!serving.has(name as string)) endsSoon();
try {
  const code = await (await command())(args);
  process.stdout.write('', () => process.exit(code)); // a connection that does not close must not keep the process
} catch (error) {
  console.error(`callgate ${name}: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(error instanceof UsageError ? 2 : 1);
}
