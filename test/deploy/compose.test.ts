import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { secretWeakness } from '../../src/config/secrets.js';
import { loadConfig } from '../../src/config/index.js';
import { projectFile } from '../../src/project.js';

interface Service {
  image: string; read_only?: boolean; user?: string; tmpfs?: string[]; cap_drop?: string[]; security_opt?: string[]; ports?: string[]; volumes?: string[]; networks: string[];
  environment?: Record<string, string>; depends_on?: Record<string, { condition: string }>; healthcheck?: object; entrypoint?: string[]; command?: string[];
}
const text = readFileSync(projectFile('docker-compose.yml'), 'utf8');
const compose = parse(text, { merge: true }) as { services: Record<string, Service>; networks: Record<string, { internal?: boolean }>; volumes: object };
const services = Object.entries(compose.services);
/** Interpolated by compose; comments are not. */
const variables = [...text.replaceAll(/^ *#.*$/gm, '').matchAll(/\$\{?(\w+)([^}]*)\}?/g)];

/** No engine is needed for any of this; it protects the promise that the file starts nothing weak or open. */
describe('docker-compose.yml', () => {
  it('has no default secret: every variable is required, and deploy/make-env.sh makes each, strong enough for production', () => {
    expect(variables.length).toBeGreaterThan(0);
    for (const [whole, , operator] of variables) expect(operator, whole).toMatch(/^:\?/);
    const made = execFileSync('sh', [projectFile('deploy', 'make-env.sh')], { encoding: 'utf8' });
    const secrets = new Map([...made.matchAll(/^([A-Z_]+)=(.+)$/gm)].map((match) => [match[1] as string, match[2] as string]));
    expect([...secrets.keys()].sort()).toEqual([...new Set(variables.map(([, name]) => name as string))].sort());
    for (const [name, secret] of secrets) {
      expect(secretWeakness(secret), name).toBeNull();
      expect(encodeURIComponent(secret), `${name} stands in a URL`).toBe(secret);
    }
    expect(new Set(secrets.values()).size).toBe(secrets.size);
  });

  it.each(services)('%s runs read-only, without capabilities, and is reachable from this machine alone', (_, service) => {
    expect(service.read_only).toBe(true);
    expect(service.cap_drop).toEqual(['ALL']);
    expect(service.security_opt).toEqual(['no-new-privileges:true']);
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    for (const network of service.networks) expect(compose.networks).toHaveProperty(network);
    if (service.ports === undefined) expect(service.networks).toEqual(['inside']);
  });

  it('starts the gateway only after the schema is there, and gives it a configuration that production accepts', () => {
    const { gateway, migrate } = compose.services as { gateway: Service; migrate: Service };
    expect(gateway.depends_on?.['migrate']).toEqual({ condition: 'service_completed_successfully' });
    expect(migrate.command).toEqual(['migrate']);
    expect(compose.networks['inside']).toEqual({ internal: true });
    const random = ['q0nR8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0TqZt5m', 'Rk3vXw9QmT5zLp7NcB2dGh8JsYf4Ue6A', 'b1HnVq8ZxWc3MlKj5PoIu7YtRe2SgDf9'];
    const env = Object.fromEntries(Object.entries(gateway.environment ?? {}).map(([name, value]) =>
      [name, name.endsWith('_SIGNING_KEYS') ? random[0] as string : name.startsWith('CALLGATE_SECRETS_') ? random.pop() as string : value.replaceAll(/\$\{[^}]*\}/g, 'x')]));
    const loaded = loadConfig({ env, production: true, folder: '/nowhere' });
    expect('problems' in loaded ? loaded.problems : []).toEqual([]);
  });

  it('names only files and folders that exist', () => {
    for (const [name, { volumes = [] }] of services) {
      for (const volume of volumes) {
        const [source = ''] = volume.split(':');
        if (source.startsWith('.')) expect(existsSync(projectFile(source)), `${name}: ${source}`).toBe(true);
        else expect(compose.volumes).toHaveProperty(source);
      }
    }
    const script = compose.services['example']?.entrypoint?.[1] ?? '';
    expect(script).toMatch(/^dist\/.*\.js$/);
    expect(existsSync(projectFile(script.replace(/^dist\//, '').replace(/\.js$/, '.ts')))).toBe(true);
  });
});
