import { expect, test } from 'vitest';
import { createMetrics } from '../../src/telemetry/metrics.js';

test('each fact appears under its name, in base units', async () => {
  const metrics = createMetrics({ version: '1.2.3', process: false });
  metrics.call('issue_credit', 'executed');
  metrics.call('issue_credit', 'executed');
  metrics.stage('authorize', 'tool', 0.0002);
  metrics.exchange('retail', 'response');
  metrics.breaker('retail', 'open');
  metrics.breaker('retail', 'half_open');
  metrics.refusedSend('retail', 'suspended');
  metrics.flush('intents', 32, 0.004);
  metrics.ledgerRetry('contention');
  metrics.recovered('settled', 3);
  metrics.observeRequest({ plane: 'agent', method: 'POST', route: '/v1/calls', status: 200, seconds: 0.01 });
  const text = await metrics.page.metrics();
  for (const line of [
    'callgate_calls_total{disposition="executed",tool="issue_credit"} 2',
    'callgate_stage_seconds_bucket{le="0.0001",stage="authorize",step="tool"} 0',
    'callgate_stage_seconds_bucket{le="0.00025",stage="authorize",step="tool"} 1',
    'callgate_upstream_exchanges_total{service="retail",outcome="response"} 1',
    'callgate_upstream_breaker{service="retail",state="half_open"} 1',
    'callgate_upstream_breaker{service="retail",state="open"} 0',
    'callgate_upstream_refusals_total{service="retail",because="suspended"} 1',
    'callgate_ledger_flush_rows_sum{lane="intents"} 32',
    'callgate_ledger_flush_seconds_sum{lane="intents"} 0.004',
    'callgate_ledger_retries_total{because="contention"} 1',
    'callgate_recoveries_total{event="settled"} 3',
    'callgate_http_request_seconds_count{plane="agent",method="POST",route="/v1/calls",status="200"} 1',
    `callgate_build_info{version="1.2.3",node="${process.version}"} 1`,
  ]) expect(text).toContain(line);
  expect(metrics.page.contentType).toContain('text/plain');
});

test('a state that has emptied goes back to zero, and final states are not shown', async () => {
  const metrics = createMetrics({ version: '0', process: false });
  metrics.operationsOpen({ unknown: 4, sending: 1 });
  metrics.operationsOpen({ sending: 2 });
  const text = await metrics.page.metrics();
  expect(text).toContain('callgate_operations_open{state="unknown"} 0');
  expect(text).toContain('callgate_operations_open{state="sending"} 2');
  expect(text).not.toContain('state="committed"');
});

test('two gateways in one process do not share their numbers', async () => {
  const [a, b] = [createMetrics({ version: '0' }), createMetrics({ version: '0' })];
  a.call('t', 'executed');
  expect(await b.page.metrics()).not.toContain('callgate_calls_total{');
  expect(await b.page.metrics()).toContain('process_resident_memory_bytes');
});

test('names that callers invent cannot grow the page without bound', async () => {
  const metrics = createMetrics({ version: '0', process: false });
  for (let i = 0; i < 1_500; i++) metrics.call(`invented_${i}`, 'blocked_tool');
  const series = (await metrics.page.metrics()).split('\n').filter((line) => line.startsWith('callgate_calls_total{'));
  expect(series).toHaveLength(1_001);
  expect(series).toContain('callgate_calls_total{disposition="blocked_tool",tool="other"} 500');
});
