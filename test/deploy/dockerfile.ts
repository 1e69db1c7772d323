/**
 * Builds what a Dockerfile builds, without an engine: each stage is a folder, COPY copies what .dockerignore lets through, RUN runs
 * in the stage's WORKDIR on this machine. It knows the instructions that our Dockerfile uses and refuses every other.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

export interface Image {
  /** The root of its file system, as far as we put anything there. */
  root: string;
  workdir: string;
  base: string;
  env: Record<string, string>;
  user: string | null;
  stopSignal: string | null;
  entrypoint: string[];
  command: string[];
  healthcheck: string[];
}

export interface Instruction { name: string; args: string }

export function readInstructions(file: string): Instruction[] {
  const text = readFileSync(file, 'utf8').replaceAll(/^#.*\n/gm, '').replaceAll(/\\\n/g, ' ');
  return text.split('\n').filter((line) => line.trim() !== '').map((line) => {
    const [, name = '', args = ''] = /^([A-Z]+) +(.*)$/.exec(line.trim()) ?? [];
    return { name, args };
  });
}

/** @returns the last stage. */
export function buildImage(context: string): Image {
  const stages = new Map<string, Image>();
  const folder = mkdtempSync(join(tmpdir(), 'callgate-image-'));
  let image: Image | undefined;
  for (const { name, args } of readInstructions(join(context, 'Dockerfile'))) {
    if (name === 'FROM') {
      const [base = '', , stage = `stage-${stages.size}`] = args.split(/ +/);
      image = { root: join(folder, stage), workdir: '/', base, env: {}, user: null, stopSignal: null, entrypoint: [], command: [], healthcheck: [] };
      mkdirSync(image.root);
      stages.set(stage, image);
    } else if (image) apply(image, { name, args }, context, stages);
  }
  if (!image) throw new Error('the Dockerfile has no stage');
  return image;
}

function apply(image: Image, { name, args }: Instruction, context: string, stages: ReadonlyMap<string, Image>): void {
  const inside = (path: string): string => join(image.root, resolve(image.workdir, path));
  switch (name) {
    case 'WORKDIR':
      image.workdir = args;
      mkdirSync(inside('.'), { recursive: true });
      return;
    case 'RUN':
      execFileSync('/bin/sh', ['-c', args], { cwd: inside('.'), stdio: 'pipe', env: { ...process.env, NODE_ENV: '', npm_config_prefer_offline: 'true' } });
      return;
    case 'ENV':
      for (const [, key = '', value = ''] of args.matchAll(/(\w+)=(\S+)/g)) image.env[key] = value;
      return;
    case 'COPY':
      copy(args.split(/ +/), { inside, context, stages });
      return;
    case 'USER': image.user = args; return;
    case 'STOPSIGNAL': image.stopSignal = args; return;
    case 'ENTRYPOINT': image.entrypoint = JSON.parse(args) as string[]; return;
    case 'CMD': image.command = JSON.parse(args) as string[]; return;
    case 'HEALTHCHECK': image.healthcheck = JSON.parse(args.slice(args.indexOf('['))) as string[]; return;
    case 'EXPOSE': return;
    default: throw new Error(`the instruction ${name} is not known here`);
  }
}

function copy(words: string[], { inside, context, stages }: { inside(path: string): string; context: string; stages: ReadonlyMap<string, Image> }): void {
  const from = words[0]?.startsWith('--from=') ? words.shift()?.slice('--from='.length) : undefined;
  const target = words.pop() ?? '';
  for (const source of words) {
    const stage = from === undefined ? undefined : stages.get(from);
    if (from !== undefined && !stage) throw new Error(`there is no stage ${from}`);
    if (!stage && !admitted(context, source)) throw new Error(`.dockerignore keeps \`${source}\` out of the build`);
    const path = join(stage?.root ?? context, source);
    cpSync(path, target.endsWith('/') ? join(inside(target), basename(source)) : inside(target), { recursive: true, verbatimSymlinks: true });
  }
}

/** Of the form that ours has: everything is out but what is named with `!`. */
export function admitted(context: string, source: string): boolean {
  const lines = readFileSync(join(context, '.dockerignore'), 'utf8').split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  if (lines[0] !== '*' || !lines.slice(1).every((line) => line.startsWith('!'))) throw new Error('.dockerignore has another form than this reader knows');
  return lines.includes(`!${source.split('/')[0]}`) && existsSync(join(context, source));
}
