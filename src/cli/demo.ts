import { pathToFileURL } from 'node:url';
import { projectFile } from '../project.js';
import { readArgs, untilStopped } from './usage.js';

interface Demonstration { play(say: (text: string) => void, stopped: Promise<void>): Promise<void> }

/** `callgate demo`. The play belongs to the example, which the product does not depend on: it is loaded when it is asked for. */
export async function demo(args: string[]): Promise<number> {
  readArgs(args, {});
  const file = projectFile('dist', 'examples', 'retail', 'demo', 'play.js');
  const { play } = (await import(pathToFileURL(file).href)) as Demonstration;
  await play((text) => process.stdout.write(text), untilStopped());
  return 0;
}
