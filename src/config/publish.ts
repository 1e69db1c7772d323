/** What is generated from the settings: the JSON Schema for editors, and the reference for people. */
import type { TSchema } from '@sinclair/typebox';
import { isSection, type Setting, settings } from './registry.js';
import { configSchema } from './settings.js';

/** schemas/callgate.schema.json */
export function renderConfigJsonSchema(): string {
  const published = { $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'callgate.yaml', ...configSchema };
  // TypeBox calls every member required; a file says only what differs from the defaults
  return `${JSON.stringify(published, (key, value: unknown) => (key === 'required' ? undefined : value), 2)}\n`;
}

const introduction = `# Configuration

<!-- Generated from src/config/settings.ts; \`npx vitest run test/config -u\` writes it again. -->

Callgate reads \`callgate.yaml\` in the working folder, or the file that \`--config\` or \`CALLGATE_CONFIG\` names, and then the
environment, which wins. Every setting has a name in both: \`limits.body\` in the file is \`CALLGATE_LIMITS_BODY\` in the
environment. What is wrong is reported all at once, with its place and the mend, and nothing starts: that includes names that do
not exist, in the file and under \`CALLGATE_\`. An empty variable counts as unset. Variables that Kubernetes makes for services
(\`CALLGATE_PORT=tcp://…\`) are ignored.

Durations and sizes are written with their unit: \`250ms\` \`10s\` \`5m\` \`1h\` \`30d\`, \`512B\` \`256KiB\` \`1MiB\`. A relative path is
relative to the file that says it, or to the working folder. The file has a JSON Schema for editors:

\`\`\`yaml
# yaml-language-server: $schema=./schemas/callgate.schema.json
mode: production
agent: { host: 0.0.0.0 }
limits: { body: 512KiB }
execution: { patience: 20s }
secrets: { key_pepper_file: /run/secrets/key_pepper, seal_key_file: /run/secrets/seal_key }
\`\`\`
`;

/** docs/configuration.md */
export function renderConfigReference(): string {
  const sections = Object.entries<TSchema>(configSchema.properties).map(([name, schema]) => {
    const rows = settings.filter(({ path, section }) => (section ?? path) === name).map(row);
    const text = isSection(schema) ? `${schema.description}\n\n` : '';
    return `## ${name}\n\n${text}| setting | environment | default | what it is |\n|---|---|---|---|\n${rows.join('\n')}\n`;
  });
  return [introduction, ...sections].join('\n');
}

function row({ path, schema, variables }: Setting): string {
  const fallback = schema.default === null ? 'none' : `\`${String(schema.default)}\``;
  return `| \`${path}\` | ${variables.map((name) => `\`${name}\``).join(', ')} | ${fallback} | ${schema.description} |`;
}
