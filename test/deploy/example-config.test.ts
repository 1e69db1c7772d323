import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { loadConfig } from '../../src/config/index.js';
import { projectFile } from '../../src/project.js';

/** It is copied as it is; a setting in it that does not exist stops the first start of whoever did so. */
it('callgate.example.yaml is accepted in production once its secrets are mounted', () => {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-secrets-'));
  const secrets = { callgate_key_pepper: 'q7Vb2xKd9fLw4sTn8mRz1cYh6gJp3eUa0iXo5BvW', callgate_seal_key: 'Zt5nQ8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0Tq', callgate_signing_keys: 'q0nR8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0TqZt5m' };
  for (const [name, secret] of Object.entries(secrets)) writeFileSync(join(folder, name), `${secret}\n`);
  const file = join(folder, 'callgate.yaml');
  writeFileSync(file, readFileSync(projectFile('callgate.example.yaml'), 'utf8').replaceAll('/run/secrets', folder));
  const loaded = loadConfig({ file, env: { DATABASE_URL: 'postgres://callgate@db/callgate' } });
  expect(loaded).toMatchObject({ config: { mode: 'production', secrets: { keyPepper: secrets.callgate_key_pepper, sealKey: secrets.callgate_seal_key } } });
  rmSync(folder, { recursive: true });
});
