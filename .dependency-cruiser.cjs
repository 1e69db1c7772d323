/**
 * The rules of the house (ARCHITECTURE): dependencies point one way, and each outside library has one door.
 * Run by scripts/check-architecture.mjs, which also fails when nothing was cruised.
 */
const stage = '(parse|validate|authorize|execute|reconcile|route)';

/** Only `room` may import `packageName`, its types included. */
const onlyDoor = (packageName, room) => ({
  name: `${packageName}-only-in-${room}`,
  comment: `Only src/${room} talks to ${packageName}; everybody else asks through an interface.`,
  severity: 'error',
  from: { path: '^src/', pathNot: `^src/${room}/` },
  to: { path: `(^|/)node_modules/(@types/)?${packageName}(/|$)` },
});

const pure = (name, path, allowedCore) => ({
  name: `${name}-does-no-io`,
  comment: `${name} decides; what it decides on is given to it.`,
  severity: 'error',
  from: { path },
  to: { dependencyTypes: ['core'], pathNot: `^(node:)?(${allowedCore})$` },
});

module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      comment: 'Also through types: two files that need each other are one file, or lack a third.',
      severity: 'error',
      from: { path: '^src/' },
      to: { circular: true },
    },
    {
      name: 'stages-never-import-each-other',
      comment: 'Each stage takes what the one before it returns; the pipeline alone knows their order.',
      severity: 'error',
      from: { path: `^src/gate/${stage}(/|\\.ts$)` },
      to: { path: `^src/gate/${stage}(/|\\.ts$)`, pathNot: '^src/gate/$1(/|\\.ts$)' },
    },
    pure('contract', '^src/contract/', 'crypto|fs|fs/promises|path|url|buffer|util'),
    pure('policy', '^src/policy/', 'crypto|module|path|url|buffer|util|v8'),
    pure('parse', '^src/gate/parse(/|\\.ts$)', 'crypto|buffer|util'),
    pure('leaf', '^src/(model|errors)\\.ts$', 'util'),
    {
      name: 'contract-and-policy-know-no-room-with-io',
      severity: 'error',
      from: { path: '^src/(contract|policy)/' },
      to: { path: '^src/(gate|ledger|upstream|locks|recovery|identity|http|embedded|cli|telemetry|main)' },
    },
    {
      name: 'leaves-import-leaves',
      severity: 'error',
      from: { path: '^src/(model|errors)\\.ts$' },
      to: { path: '^src/', pathNot: '^src/(model|errors)\\.ts$' },
    },
    onlyDoor('pg', 'ledger'),
    onlyDoor('ioredis', 'locks'),
    onlyDoor('undici', 'upstream'),
    onlyDoor('jose', 'identity'),
    onlyDoor('fastify', 'http'),
    {
      name: 'gate-knows-interfaces',
      comment: 'main.ts knows implementations; the gate knows `ports`, `exchange` and `decision`.',
      severity: 'error',
      from: { path: '^src/gate/' },
      to: {
        path: '^src/(ledger|upstream|locks|policy|recovery|identity|http|embedded|cli|main)',
        pathNot: '^src/(upstream/exchange|policy/decision)\\.ts$',
      },
    },
    {
      name: 'http-knows-ports',
      comment: 'The listeners are given a door, records and an authenticator; they never reach behind them.',
      severity: 'error',
      from: { path: '^src/http/' },
      to: { path: '^src/(gate|ledger|upstream|locks|policy|recovery|identity|embedded|cli|main|config)' },
    },
    {
      name: 'client-stands-alone',
      comment: 'It is installed without the house, and runs where there is no Node: of the house it may know the words, as types.',
      severity: 'error',
      from: { path: '^src/client/' },
      to: { pathNot: '^src/(client/|model\\.ts$)' },
    },
    {
      name: 'client-shares-only-types',
      severity: 'error',
      from: { path: '^src/client/' },
      to: { path: '^src/model\\.ts$', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'house-needs-no-client',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/client/' },
      to: { path: '^src/client/' },
    },
    {
      name: 'nobody-imports-the-wiring',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(main\\.ts$|cli/|development/)' },
      to: { path: '^src/(main\\.ts$|cli/)' },
    },
    {
      name: 'product-runs-without-its-tests',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|examples|bench|scripts)/' },
    },
    {
      name: 'no-development-packages',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'every-import-resolves',
      comment: 'An import that is not found is an import that no rule can see.',
      severity: 'error',
      from: { path: '^src/' },
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    // Sees `import type` too: an interface is a dependency like any other.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default', 'types'], extensions: ['.ts', '.js', '.mjs', '.cjs', '.json', '.d.ts'] },
  },
};
