import { describe, expect, it } from 'vitest';
import { refuse } from '../../src/errors.js';
import { problemAnswer } from '../../src/http/problem.js';
import type { Answer } from '../../src/model.js';
import { as, executed, listen } from './listeners.js';

describe('operations on the agent listener', () => {
  it('asks at once without Prefer, and waits as long as Prefer says, at most the cap', async () => {
    const asked: [string, number][] = [];
    const { agent } = await listen({ door: { operation: async (_principal, id, patienceMs) => { asked.push([id, patienceMs]); return executed; } } });
    for (const prefer of [{}, { prefer: 'wait=7' }, { prefer: 'wait=99' }]) await fetch(`${agent}/v1/operations/op_1`, { headers: { ...as('agent'), ...prefer } });
    expect(asked).toEqual([['op_1', 0], ['op_1', 7000], ['op_1', 45_000]]);
  });

  it('cancels with and without a body, whose content means nothing', async () => {
    const { agent } = await listen({ door: { cancel: async () => problemAnswer(refuse('TOO_LATE', 'It was sent.')) } });
    for (const init of [{ headers: as('agent') }, { headers: { ...as('agent'), 'content-type': 'application/json' }, body: '{}' }]) {
      const response = await fetch(`${agent}/v1/operations/op_1/cancel`, { method: 'POST', ...init });
      expect([response.status, ((await response.json()) as Answer).code]).toEqual([409, 'TOO_LATE']);
    }
  });

  it('an id that we never mint is not there, and is not looked for: NUL and quotes never reach a database', async () => {
    const { agent, logged } = await listen({ door: { operation: async () => { throw new Error('asked'); }, cancel: async () => { throw new Error('asked'); } } });
    for (const id of ['%00', "op_'", 'op_%F0%9F%92%A9', `op_${'a'.repeat(200)}`]) {
      for (const [method, path] of [['GET', id], ['POST', `${id}/cancel`]] as const) {
        const response = await fetch(`${agent}/v1/operations/${path}`, { method, headers: as('agent') });
        expect([response.status, ((await response.json()) as Answer).code]).toEqual([404, 'OPERATION_NOT_FOUND']);
      }
    }
    expect(logged).toEqual([]);
  });
});
