import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { projectFile } from '../../src/project.js';
import { blocks, page, pages } from './pages.js';

const { scripts } = JSON.parse(readFileSync(projectFile('package.json'), 'utf8')) as { scripts: Record<string, string> };
const { paths } = parse(readFileSync(projectFile('openapi.yaml'), 'utf8')) as { paths: Record<string, object> };
const usage = execFileSync(process.execPath, [projectFile('bin', 'callgate.mjs'), 'help'], { encoding: 'utf8' });
const exampleReadme = page('examples/retail/service/README.md').text;

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
if (!hasOpenssl && !process.env['CI']) console.warn('\n*** NO OPENSSL: its commands in the pages are NOT being run (apt-get install openssl). ***\n');

/** One command a line, continued lines joined. */
const commands = (text: string): string[] => blocks(text, 'sh').flatMap((block) => block.replaceAll('\\\n', ' ').split('\n').filter((line) => line.trim() !== ''));
const all = pages.flatMap(({ file, text }) => commands(text).map((command): [string, string] => [file, command]));

/** What a reader pastes has to work; a command of a kind that nobody checks is an error here. */
describe('the commands of the pages', () => {
  it.each(all)('%s: %s', (_, command) => {
    check(command);
  });

  it('are there to be checked', () => {
    expect(all.filter(([file]) => file === 'README.md').length).toBeGreaterThanOrEqual(6);
    expect(() => check('npm run frobnicate')).toThrow();
    expect(() => check('npx --no callgate keys create --frobnicate')).toThrow();
    expect(() => check('curl -s http://127.0.0.1:8080/v1/frobnicate')).toThrow();
    expect(() => check('frobnicate')).toThrow();
  });

  it('send bodies that are JSON', () => {
    const bodies = all.flatMap(([, command]) => [...command.matchAll(/-d '([^']+)'/g)].map((match) => match[1] as string));
    expect(bodies.length).toBeGreaterThan(2);
    for (const body of bodies) expect(JSON.parse(body)).toBeTypeOf('object');
  });
});

const checks: Record<string, (words: string[], command: string) => void> = {
  npm: checkNpm,
  npx: (words) => checkCallgate(words.slice(words.indexOf('callgate') + 1)),
  curl: (_, command) => checkCurl(command),
  sh: ([script = '']) => expect(existsSync(projectFile(script)), script).toBe(true),
  node: ([script = '']) => expect(existsSync(projectFile(script)), script).toBe(true),
  docker: checkDocker,
  openssl: checkOpenssl,
};

function check(command: string): void {
  const [program = '', ...words] = command.trim().split(/\s+/);
  const assignment = /^[A-Z]+=/.test(program);
  const known = assignment ? checkExpressions : checks[program];
  if (!known) throw new Error(`nobody checks \`${program}\``);
  known(words, command);
}

function checkNpm([verb = '', name = '']: string[]): void {
  if (verb === 'pack') expect(existsSync(projectFile(name, 'package.json')), name).toBe(true);
  else expect(Object.keys(scripts)).toContain(verb === 'run' ? name : verb);
}

/** Flags are those of the command's own usage, which it reads strictly. */
function checkCallgate(words: string[]): void {
  const [first = '', verb = ''] = words;
  const command = usage.includes(`callgate ${first} ${verb} `) ? `${first} ${verb}` : first;
  const lines = usage.slice(usage.indexOf(`callgate ${command} `)).split(/\n {2}callgate /)[0] ?? '';
  expect(usage).toContain(`callgate ${command} `);
  for (const flag of words.filter((word) => word.startsWith('--'))) expect(lines, flag).toContain(flag);
}

/** Really run, on a certificate of the tests. */
function checkOpenssl(words: string[]): void {
  expect(['rand', 'x509']).toContain(words[0]);
  if (!hasOpenssl && !process.env['CI']) return;
  const certificate = projectFile('test', 'identity', 'certificates', 'agent.pem');
  expect(execFileSync('openssl', words.map((word) => (word.endsWith('.pem') ? certificate : word)), { encoding: 'utf8' })).toMatch(/\S{20,}/);
}

function checkDocker(words: string[]): void {
  expect(words[0]).toBe('compose');
  const gateway = words.indexOf('gateway');
  if (words[1] === 'run') checkCallgate(words.slice(gateway + 1));
  else if (words[1] === 'exec') checkExec(words.slice(2));
  else expect(words[1]).toBe('up');
}

/** A file that is named is one that the service is given. */
function checkExec([service = '', ...words]: string[]): void {
  const { services } = parse(readFileSync(projectFile('docker-compose.yml'), 'utf8'), { merge: true }) as { services: Record<string, { volumes?: string[] }> };
  expect(Object.keys(services)).toContain(service);
  for (const file of words.filter((word) => word.startsWith('/'))) expect((services[service]?.volumes ?? []).map((volume) => volume.split(':')[1])).toContain(file);
}

function checkCurl(command: string): void {
  const path = /https?:\/\/127\.0\.0\.1:\d+(\/[\w/{}-]*)/.exec(command)?.[1] ?? '';
  if (path.startsWith('/_')) expect(exampleReadme).toContain(path);
  else expect(Object.keys(paths)).toContain(path);
  checkExpressions([], command);
}

/** `$(node -p "…")` over dev.json: its members are those that development publishes. */
function checkExpressions(_: string[], command: string): void {
  const development = readFileSync(projectFile('src', 'development', 'start.ts'), 'utf8');
  for (const [, member = ''] of command.matchAll(/require\('\.\/\.callgate\/dev\.json'\)\.(\w+)/g)) expect(development, member).toContain(`${member}:`);
}
