/** Drives one cell of the table through a whole gateway and tells what came of it. */
import { type Opened, type Sent, unique } from '../../support/gateway.js';
import { decide, reviewOf } from '../../people/reviews.js';
import { until } from '../process.js';
import type { Observation } from './observations.js';
import { believed, type Cell, type Ends, type Shown, verified } from './rules.js';
import { readTool, type Scripted, type Setup, type Turn, writeTool } from './service.js';

export interface Lane {
  n: number;
  service: Scripted;
  open: Opened;
  /** Whose unknown outcomes are a person’s after two seconds. */
  brief: Opened;
  reviewer: string;
}

let cells = 0;
const patience = { prefer: 'wait=10' };
const dropped = (takesEffect: boolean): Turn => ({ by: { wire: ({ socket }) => void socket?.destroy() }, takesEffect });

/** What came of it in the end, and everything that was heard on the way. */
export async function drive({ n, service, open, brief, reviewer }: Lane, observation: Observation, cell: Cell): Promise<{ ends: Ends; heard: Sent[] }> {
  const { setup, moment, world, before } = cell;
  const id = `c${++cells}`;
  const byPerson = moment === 'after_unknown' && setup === 'both';
  const endless = observation.proves === 'accepted' && (setup === 'key' || setup === 'neither');
  const at = byPerson || endless ? brief : open;
  const turns = [
    ...(moment === 'after_absence' ? [dropped(false)] : moment === 'after_unknown' ? [dropped(before === 'happened')] : []),
    { by: observation.by, takesEffect: world === 'happened', late: observation.proves === 'accepted' },
  ];
  await quiet(at, n);
  service.script(id, turns, byPerson);
  const first = await at.agent.call({ session_id: id, call_id: 'c', tool: writeTool(n, setup, moment === 'last'), arguments: { cell: id } }, byPerson ? { prefer: 'wait=2' } : patience);
  const heard = [first];
  if (byPerson) heard.push(await sendAgainByPerson(at, first, reviewer));
  const answer = await ended(at, first, heard);
  const { attempts } = (await at.control().get(`/v1/operations/${answer.operation_id}`)) as unknown as { attempts: { outcome: Ends['verdict'] }[] };
  const verdict = attempts[turns.length - 1]?.outcome as Ends['verdict'];
  return { ends: { verdict, told: asTold(answer), ...service.books(id) }, heard };
}

export async function driveRead({ n, service, open }: Lane, observation: Observation, last: boolean): Promise<{ told: string; sent: number }> {
  const id = `c${++cells}`;
  await quiet(open, n);
  service.script(id, [{ by: observation.by, takesEffect: false }], false);
  const answer = await open.agent.call({ session_id: id, call_id: 'c', tool: readTool(n, last), arguments: { cell: id } }, patience);
  return { told: asTold(answer), sent: service.books(id).sent };
}

/** It took effect, and this is what its read-back shows. */
export async function driveReadBack({ n, service, open, brief }: Lane, observation: Observation, setup: Setup, shown: Shown): Promise<Omit<Ends, 'verdict'>> {
  const id = `c${++cells}`;
  const at = shown === 'nothing' ? brief : open;
  await quiet(at, n);
  // The second turn is never reached, so that the first is not the last, after which it would show something.
  service.script(id, [{ by: observation.by, takesEffect: true, twice: shown === 'twice', late: observation.proves === 'accepted' }, dropped(false)], shown === 'nothing');
  const first = await at.agent.call({ session_id: id, call_id: 'c', tool: writeTool(n, setup, false), arguments: { cell: id } }, shown === 'nothing' ? { prefer: 'wait=2' } : patience);
  return { told: asTold(await ended(at, first, [first])), ...service.books(id) };
}

/** A pause that the cell before was told of is over; the first send of its service earns the retries of the next one. */
async function quiet({ agent }: Opened, lane: number): Promise<void> {
  await until(async () => (await agent.call({ session_id: unique('warm'), tool: readTool(lane, true), arguments: { cell: 'warm' } })).disposition === 'executed', 10_000);
}

/** Nothing could be read back until the deadline, so it is a person's, who has it sent once more. */
async function sendAgainByPerson(open: Opened, first: Sent, reviewer: string): Promise<Sent> {
  let seen = first;
  await until(async () => {
    seen = await open.agent.get(`/v1/operations/${first.operation_id}`, { prefer: 'wait=1' });
    return seen.disposition === 'review';
  }, 20_000);
  const desk = open.control(reviewer);
  const { digest } = await reviewOf(desk, seen.review_id as string);
  const decided = await decide(desk, seen.review_id as string, { decision: 'resend', expected_digest: digest });
  if (decided.http !== 200) throw new Error(JSON.stringify(decided));
  return open.agent.get(`/v1/operations/${first.operation_id}`);
}

/** As a client does: asked about until nothing more is to come by itself. */
async function ended({ agent }: Opened, first: Sent, heard: Sent[]): Promise<Sent> {
  let answer = heard.at(-1) as Sent;
  await until(async () => {
    if (answer.next_action !== 'wait' && answer.next_action !== 'verify') return true;
    answer = await agent.get(`/v1/operations/${first.operation_id}`, { prefer: 'wait=5' });
    heard.push(answer);
    return false;
  }, 25_000);
  return answer;
}

function asTold({ disposition, code, next_action: next, verified: isVerified }: Sent): string {
  if (disposition === 'executed') return isVerified ? verified : believed;
  return `\`${disposition}\` ${code}, ${next}`;
}
