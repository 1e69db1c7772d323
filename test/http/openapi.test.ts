import { createConfig, lintFromString } from '@redocly/openapi-core';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type ProblemCode, problems, refuse } from '../../src/errors.js';
import { problemAnswer } from '../../src/http/problem.js';
import type { App } from '../../src/http/server.js';
import { dispositions, nextActions, operationStates } from '../../src/model.js';
import type { PublishedTool } from '../../src/ports.js';
import { as, build, executed, json, listen, openapi } from './listeners.js';

type Operation = { tags: string[]; responses: Record<string, { $ref?: string; content?: Record<string, { schema: object }> }> };
const document = openapi as unknown as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, { enum?: string[] }>; responses: Record<string, Operation['responses'][string]>; examples: Record<string, { value: object }> };
};

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema({ $id: 'openapi', components: openapi['components'] });

function validator(schema: object): ValidateFunction {
  return ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"openapi#/components')));
}

function operations(): [method: string, path: string, operation: Operation][] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).filter(([method]) => ['get', 'post', 'put', 'patch', 'delete'].includes(method)).map(([method, operation]) => [method, path, operation] as [string, string, Operation]));
}

/** Of Fastify's printed tree: a node is four columns deeper than its parent; HEAD comes with every GET. */
function registered(app: App): string[] {
  const stack: string[] = [];
  return app.printRoutes({ commonPrefix: false }).split('\n').flatMap((line) => {
    const node = /^([\s│]*)[├└]── (\S*)(?: \((.*)\))?/.exec(line);
    if (!node) return [];
    const depth = (node[1] ?? '').length / 4;
    stack[depth] = (depth > 0 ? stack[depth - 1] : '') + (node[2] ?? '');
    return (node[3]?.split(', ') ?? []).filter((method) => method !== 'HEAD').map((method) => `${method.toLowerCase()} ${stack[depth]?.replace(/:(\w+)/g, '{$1}')}`);
  });
}

describe('openapi.yaml and the service say the same', () => {
  it.each(['agent', 'control'] as const)('every route of the %s listener is described under its tag, and nothing else is', async (plane) => {
    const built = build();
    const app = plane === 'agent' ? built.agentApp : built.controlApp;
    await app.ready();
    const described = operations().filter(([, , { tags }]) => tags.includes(plane)).map(([method, path]) => `${method} ${path}`);
    const routes = registered(app);
    expect(routes.length).toBeGreaterThan(3);
    expect([...new Set(routes)].sort()).toEqual(described.sort());
  });

  it.each([['Disposition', dispositions], ['NextAction', nextActions], ['OperationState', operationStates]] as const)('%s lists the words of the model', (name, words) => {
    expect(document.components.schemas[name]?.enum).toEqual([...words]);
  });

  it('its examples satisfy its own schemas', () => {
    const isAnswer = validator({ $ref: '#/components/schemas/Answer' });
    const isProblem = validator({ $ref: '#/components/schemas/Problem' });
    expect(isAnswer(document.components.examples['Executed']?.value), ajv.errorsText(isAnswer.errors)).toBe(true);
    expect(isAnswer(document.components.examples['Unknown']?.value), ajv.errorsText(isAnswer.errors)).toBe(true);
    expect(isProblem(document.components.examples['TransitionError']?.value), ajv.errorsText(isProblem.errors)).toBe(true);
  });

  it('passes the recommended rules of the linter without a warning', async () => {
    const file = fileURLToPath(new URL('../../openapi.yaml', import.meta.url));
    const config = await createConfig({ extends: ['recommended'] });
    const found = await lintFromString({ source: readFileSync(file, 'utf8'), absoluteRef: file, config });
    expect(found.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)).toEqual([]);
  });
});

/** The response as the document describes it: status and media type must be there, and the body must satisfy the schema. */
async function held(method: string, path: string, response: Response): Promise<unknown> {
  const operation = document.paths[path]?.[method];
  const described = operation?.responses[String(response.status)];
  const resolved = described?.$ref ? document.components.responses[described.$ref.split('/').at(-1) ?? ''] : described;
  const mediaType = response.headers.get('content-type')?.split(';')[0] ?? '';
  const schema = resolved?.content?.[mediaType]?.schema;
  expect(schema, `${method} ${path} ${response.status} ${mediaType} is not described`).toBeDefined();
  const text = await response.text();
  const body: unknown = mediaType.endsWith('json') && !mediaType.endsWith('ndjson') ? JSON.parse(text) : text;
  const validate = validator(schema ?? {});
  expect(validate(body), `${method} ${path} ${response.status}: ${ajv.errorsText(validate.errors)}`).toBe(true);
  return body;
}

function membersOf(...names: string[]): Set<string> {
  type Schema = { properties?: object; allOf?: Schema[] };
  const schemas = document.components.schemas as Record<string, Schema>;
  return new Set(names.flatMap((name) => [schemas[name], ...(schemas[name]?.allOf ?? [])].flatMap((schema) => Object.keys(schema?.properties ?? {}))));
}

describe('real answers over real sockets satisfy the schemas', () => {
  const post = (url: string, headers: Record<string, string>, body = '{}') => fetch(url, { method: 'POST', headers: { ...headers, ...json }, body });

  it('answers of every disposition that is no refusal, with no member that is not described', async () => {
    for (const disposition of ['executed', 'replayed', 'pending', 'unknown', 'approval_required', 'review'] as const) {
      const answer = { ...executed, disposition, duplicate_of: 'c-0', verify_with: { tool: 'get_credit_receipt', arguments: {} }, review_id: 'rev_1', result_part: { text: '{', offset: 0, bytes: 9, next_offset: 1, href: '/v1/operations/op_1/result?offset=1' }, notice: 'REPEATED_READ' as const, observed_at: '2026-01-01T00:00:00.000Z', detail: 'It was sent.', code: 'RECONCILING' };
      const { agent } = await listen({ door: { propose: async () => answer } });
      const body = await held('post', '/v1/calls', await post(`${agent}/v1/calls`, as('agent')));
      expect(Object.keys(body as object).filter((member) => !membersOf('Answer').has(member))).toEqual([]);
    }
  });

  it.each((Object.keys(problems) as ProblemCode[]).filter((code) => problems[code].status !== 410))('the refusal %s, if a call can meet it', async (code) => {
    const refusal = refuse(code, 'x', { nearestTools: ['a'], budget: { kind: 'proposals', of: 'session', per: 'tool and intent', limit: 3, used: 3, tool: 't', intent_id: null }, errors: [{ pointer: '/a', code: 'A', message: 'm', expected: 1, nearest: 'b' }] });
    const { agent } = await listen({ door: { propose: async () => problemAnswer(refusal, 'inc_1') } });
    const body = await held('post', '/v1/calls', await post(`${agent}/v1/calls`, as('agent')));
    expect(Object.keys(body as object).filter((member) => !membersOf('Answer', 'Problem').has(member))).toEqual([]);
  });

  it('what http itself answers on the agent listener', async () => {
    const tool: PublishedTool = {
      name: 't', version: '1.0.0', digest: 'sha256:00', description: 'd', effect: 'none', idempotent: true, output_schema: { type: 'object' },
      input_schema: { type: 'object', properties: { n: { type: 'integer', multipleOf: 5 } }, additionalProperties: false },
    };
    const unfit = { ...tool, name: 'u', input_schema: { type: 'object', properties: { 'a b': { properties: {} } }, required: ['a b'] } };
    const { agent } = await listen({ door: { tools: () => [tool, unfit] } });
    await held('post', '/v1/calls', await post(`${agent}/v1/calls`, {}));
    await held('post', '/v1/calls', await post(`${agent}/v1/calls`, as('admin')));
    await held('post', '/v1/calls', await post(`${agent}/v1/calls`, { ...as('agent'), 'content-encoding': 'br' }));
    await held('post', '/v1/calls', await post(`${agent}/v1/calls`, as('agent'), ' '.repeat(300_000)));
    await held('get', '/v1/operations/{id}', await fetch(`${agent}/v1/operations/op_1`, { headers: as('agent') }));
    await held('get', '/v1/operations/{id}', await fetch(`${agent}/v1/operations/!`, { headers: as('agent') }));
    await held('get', '/v1/operations/{id}/result', await fetch(`${agent}/v1/operations/op_1/result?offset=0&limit=9`, { headers: as('agent') }));
    for (const path of ['op_1/result?offset=-1', '!/result']) await held('get', '/v1/operations/{id}/result', await fetch(`${agent}/v1/operations/${path}`, { headers: as('agent') }));
    await held('post', '/v1/operations/{id}/cancel', await post(`${agent}/v1/operations/op_1/cancel`, as('agent')));
    await held('get', '/v1/tools', await fetch(`${agent}/v1/tools`, { headers: as('agent') }));
    for (const query of ['', '?x=1']) await held('get', '/v1/sessions/{id}/context', await fetch(`${agent}/v1/sessions/s/context${query}`, { headers: as('agent') }));
    for (const dialect of ['openai-chat', 'openai-responses', 'anthropic', 'gemini', 'mcp', 'other']) {
      await held('get', '/v1/tools', await fetch(`${agent}/v1/tools?dialect=${dialect}`, { headers: as('agent') }));
    }
  });

  it.each([
    ['openai-chat', { message: { tool_calls: [{ id: 'a', type: 'function', function: { name: 't', arguments: '{}' } }] }, finish_reason: 'tool_calls' }],
    ['openai-responses', { output: [{ type: 'function_call', call_id: 'a' }, { type: 'custom_tool_call', call_id: 'b' }, { type: 'computer_call', call_id: 'c' }], status: 'completed' }],
    ['anthropic', { message: { content: [{ type: 'tool_use', id: 'a', name: 't', input: {} }, { type: 'tool_use', id: 'b', name: 't', toolset_name: 'browser' }] }, stop_reason: 'tool_use' }],
    ['anthropic', { message: { content: [] }, stop_reason: 'end_turn' }],
  ])('the dialect %s, taken and refused', async (dialect, given) => {
    const path = `/v1/dialects/${dialect}`;
    const { agent } = await listen({ door: { turn: async ({ calls }) => ({ results: calls.map((_, position) => (position === 0 ? executed : problemAnswer(refuse('UNUSABLE_CALL', 'x')))) }) } });
    await held('post', path, await post(agent + path, as('agent'), JSON.stringify({ session_id: 's', ...given })));
    await held('post', path, await post(agent + path, as('agent'), '{"session_id":"s"}'));
    await held('post', path, await post(agent + path, {}));
    const refusing = await listen({ door: { turn: async () => ({ refused: problemAnswer(refuse('SUBJECT_NOT_GRANTED', 'x')) }) } });
    await held('post', path, await post(refusing.agent + path, as('agent'), JSON.stringify({ session_id: 's', ...given })));
  });

  it('the control listener, records found and not, good queries and bad, ready and not', async () => {
    const receipt = { id: 'rcp_1', kind: 'effect', operation_id: 'op_1', session_id: 's', tool: 't', disposition: 'executed', outcome: 'committed', recorded_at: '2026-01-01T00:00:00.000Z' };
    const operation = { id: 'op_1', generation: 1, tool: 't', state: 'committed', outcome: 'committed', verified: true, session_id: 's', created_at: '2026-01-01T00:00:00.000000Z', settled_at: null };
    const { control } = await listen({
      records: {
        receipts: async () => ({ items: [receipt], next_cursor: 'next' }), operations: async () => ({ items: [operation], next_cursor: null }),
        receipt: async (_tenant, id) => (id === 'rcp_1' ? receipt : null),
        operation: async (_tenant, id) => (id === 'op_1' ? { ...operation, attempts: [], proposals: [{ answered_from: '2026-01-01T00:00:00.000000Z' }], callbacks: [{ service: 'retail', event_id: 'evt-1', received_at: '2026-01-01T00:00:00.000Z', weighed: null }], receipts: [receipt] } : null),
      },
    });
    const visit = async (path: string, url: string, headers: Record<string, string> = as('auditor')) => held('get', path, await fetch(control + url, { headers }));
    for (const url of ['/v1/receipts', '/v1/receipts?limit=0', '/v1/receipts?x=1']) await visit('/v1/receipts', url);
    for (const url of ['/v1/operations', '/v1/operations?state=odd']) await visit('/v1/operations', url);
    for (const id of ['known', 'unknown']) await visit('/v1/sessions/{id}', `/v1/sessions/${id}`);
    const put = async (body: string, who = 'application') =>
      held('put', '/v1/sessions/{id}', await fetch(`${control}/v1/sessions/s`, { method: 'PUT', headers: { ...as(who), ...json }, body }));
    for (const body of ['{}', '{"budgets":{"turns":1}}', '{"budgets":{"turns":-1}}', '{"budget":{}}', '{', '[]', '{"a":1,"a":2}']) await put(body);
    await put('{}', 'auditor');
    for (const headers of [as('auditor'), as('none')]) await visit('/v1/receipts/keys', '/v1/receipts/keys', headers);
    for (const url of ['/v1/receipts/export', '/v1/receipts/export?after=7&format=ndjson', '/v1/receipts/export?after=x']) await visit('/v1/receipts/export', url);
    await visit('/v1/receipts/export', '/v1/receipts/export', as('reviewer'));
    for (const id of ['rcp_1', 'rcp_2']) await visit('/v1/receipts/{id}', `/v1/receipts/${id}`);
    for (const id of ['op_1', 'op_2']) await visit('/v1/operations/{id}', `/v1/operations/${id}`);
    for (const headers of [{}, { 'webhook-id': 'evt-1', 'webhook-timestamp': '1', 'webhook-signature': 'v1,x' }]) {
      await held('post', '/v1/callbacks/{service}', await fetch(`${control}/v1/callbacks/retail`, { method: 'POST', headers: { ...json, ...headers }, body: '{}' }));
    }
    for (const headers of [{}, as('agent')]) await visit('/v1/receipts', '/v1/receipts', headers);
    for (const path of ['/healthz', '/readyz', '/metrics', '/docs']) await visit(path, path, {});
    for (const code of ['IN_PROGRESS', 'NONE']) await visit('/docs/problems/{code}', `/docs/problems/${code}`, {});
    const summary = { id: 'rev_1', state: 'open', operation_id: 'op_1', tool: 't', reason: 'MISMATCH', opened_at: receipt.recorded_at, deadline: receipt.recorded_at, overdue: true, escalated_at: null, decision: null };
    const decided = { ...summary, state: 'decided', decision: { decision: 'resend', by: 'r', at: receipt.recorded_at, because: 'b', receipt: 'rcp_1' } };
    const option = { possible: false, does: 'x', against: 'y', asks_service_first: true };
    const review = { digest: 'sha256:0', operation: {}, arguments: null, entity: null, approved_by: [], attempts: [], evidence: [receipt], options: { resend: option } };
    const desk = await listen({
      reviews: {
        list: async () => ({ items: [summary, decided], next_cursor: null }), one: async (_tenant, id) => (id === 'rev_1' ? { ...summary, ...review } : null),
        undo: async (_person, id) => (id === 'rev_1' ? executed : refuse(id.slice(4) as ProblemCode, 'x')),
        decide: async (_person, id) => (id === 'rev_1' ? { ...decided, ...review, digest: null, options: {} } : refuse(id.slice(4) as ProblemCode, 'x')),
      },
    });
    for (const url of ['/v1/reviews', '/v1/reviews?state=odd']) await held('get', '/v1/reviews', await fetch(desk.control + url, { headers: as('reviewer') }));
    for (const id of ['rev_1', 'rev_2']) await held('get', '/v1/reviews/{id}', await fetch(`${desk.control}/v1/reviews/${id}`, { headers: as('reviewer') }));
    const verdict = JSON.stringify({ decision: 'resend', reason: 'r', expected_digest: 'd' });
    for (const id of ['rev_1', 'rev_REVIEW_NOT_FOUND', 'rev_ALREADY_DECIDED', 'rev_EVIDENCE_CHANGED', 'rev_DECISION_NOT_POSSIBLE', 'rev_DISTINCT_PERSON_REQUIRED']) {
      await held('post', '/v1/reviews/{id}/decision', await post(`${desk.control}/v1/reviews/${id}/decision`, as('reviewer'), verdict));
    }
    for (const body of ['{', '{}', '{"n":9007199254740993}', ' '.repeat(300_000)]) {
      await held('post', '/v1/reviews/{id}/decision', await post(`${desk.control}/v1/reviews/rev_1/decision`, as('reviewer'), body));
    }
    await held('post', '/v1/reviews/{id}/decision', await post(`${desk.control}/v1/reviews/rev_1/decision`, as('auditor'), verdict));
    const undo = (id: string, role: string, body = '{"reason":"r","expected_digest":"d"}') => post(`${desk.control}/v1/reviews/${id}/undo`, as(role), body);
    for (const id of ['1', ...['REVIEW_NOT_FOUND', 'EVIDENCE_CHANGED', 'DISTINCT_PERSON_REQUIRED', 'FORBIDDEN', 'VERSION_CONFLICT', 'VERSION_REQUIRED', 'RATE_LIMITED', 'UPSTREAM_UNREACHABLE', 'UNAVAILABLE', 'NOT_COMMITTED']]) await held('post', '/v1/reviews/{id}/undo', await undo(`rev_${id}`, 'reviewer'));
    for (const body of ['{', '{}', ' '.repeat(300_000)]) await held('post', '/v1/reviews/{id}/undo', await undo('rev_1', 'reviewer', body));
    await held('post', '/v1/reviews/{id}/undo', await undo('rev_1', 'auditor'));
    const waits = {
      id: 'apr_1', state: 'pending', operation_id: 'op_1', tool: 't', by: 'reviewer', needed: 2, approved_by: ['a'], digest: 'sha256:0', summary: 's', asked_at: receipt.recorded_at,
      expires_at: receipt.recorded_at, ended: null,
    };
    const approval = { ...waits, arguments: null, entity: null, observations: [], contract: { version: '1.0.0', digest: 'sha256:0' }, decisions: [receipt], state: 'rejected', ended: { by: 'r', at: receipt.recorded_at, because: '' } };
    const desks = await listen({
      approvals: {
        list: async () => ({ items: [waits], next_cursor: null }), one: async (_tenant, id) => (id === 'apr_1' ? approval : null),
        decide: async (_person, id) => (id === 'apr_1' ? approval : refuse(id.slice(4) as ProblemCode, 'x')),
      },
    });
    for (const url of ['/v1/approvals', '/v1/approvals?by=odd']) await held('get', '/v1/approvals', await fetch(desks.control + url, { headers: as('application') }));
    for (const id of ['apr_1', 'apr_2']) await held('get', '/v1/approvals/{id}', await fetch(`${desks.control}/v1/approvals/${id}`, { headers: as('application') }));
    for (const id of ['apr_1', 'apr_APPROVAL_NOT_FOUND', 'apr_ALREADY_DECIDED', 'apr_EVIDENCE_CHANGED', 'apr_APPROVAL_CLOSED', 'apr_NOT_AN_APPROVER', 'apr_IN_PROGRESS']) {
      await held('post', '/v1/approvals/{id}/decision', await post(`${desks.control}/v1/approvals/${id}/decision`, as('application'), JSON.stringify({ decision: 'approve', expected_digest: 'd' })));
    }
    await held('post', '/v1/approvals/{id}/decision', await post(`${desks.control}/v1/approvals/apr_1/decision`, as('application'), '{}'));
    expect(await visit('/openapi.json', '/openapi.json', {})).toEqual(openapi);
    const unready = await listen({ health: { readiness: async () => ({ ready: false, checks: { postgres: { state: 'down' } } }) } });
    await held('get', '/readyz', await fetch(`${unready.control}/readyz`));
  });
});
