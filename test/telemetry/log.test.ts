import { expect, test } from 'vitest';
import { createLog } from '../../src/telemetry/log.js';

function capture(level = 'info') {
  const lines: string[] = [];
  const log = createLog({ level, destination: { write: (line: string) => void lines.push(line) }, key: 'k' });
  return { log, lines, read: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

test('a line is one JSON object with time, level and text', () => {
  const { log, lines, read } = capture();
  log.info({ tool: 'get_order', ms: 3 }, 'called');
  expect(lines[0]).toMatch(/^\{[^\n]*\}\n$/);
  expect(read()[0]).toMatchObject({ level: 'info', tool: 'get_order', ms: 3, msg: 'called', time: expect.stringMatching(/^\d{4}-.*Z$/) });
});

test('nothing below the level is written', () => {
  const { log, lines } = capture('warn');
  log.info('quiet');
  log.warn('loud');
  expect(lines).toHaveLength(1);
});

test('no secret reaches a line: as a field, in a message, in a child, in an error with its stack and cause', () => {
  const { log, lines } = capture();
  const cause = new Error('connect postgres://u:CANARY@db/x failed');
  const error = Object.assign(new Error('upstream said key sk-CANARY1', { cause }), { headers: { authorization: 'CANARY' }, config: { token: 'CANARY' } });
  log.info({ req: { headers: { authorization: 'Bearer CANARY1', cookie: 'CANARY' } }, nested: [{ private_key: 'CANARY' }] }, 'PASSWORD=CANARY4');
  log.child({ api_key: 'CANARY' }).warn('with %s', 'Bearer CANARY1');
  log.error(error);
  log.error({ err: error }, 'failed');
  log.fatal(error, 'ghp_CANARY3');
  expect(lines).toHaveLength(5);
  for (const line of lines) {
    expect(line).not.toContain('CANARY');
    expect(line).toContain('«redacted:');
  }
});

test('what pino cannot serialise costs a line and no secret', () => {
  const { log, lines, read } = capture();
  const circular: Record<string, unknown> = { password: 'CANARY' };
  circular.self = circular;
  log.info({ circular, big: 1n }, 'odd');
  expect(lines.join('')).not.toContain('CANARY');
  expect(read()).toHaveLength(1);
});
