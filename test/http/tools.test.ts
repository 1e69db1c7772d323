/** What an agent is given to put into a model request: taken by the provider as it is, and honest about what it leaves out. */
import { describe, expect, it } from 'vitest';
import type { PublishedTool } from '../../src/ports.js';
import { as, listen } from './listeners.js';

const schema = { type: 'object', properties: { id: { type: 'string', pattern: '^O-' } }, required: ['id'], additionalProperties: false };
const output = { type: 'object', properties: { status: { type: 'string' } } };
const tool: PublishedTool = {
  name: 'get_order', version: '2.0.0', digest: 'sha256:00', description: 'Read.', input_schema: schema, output_schema: output, effect: 'none', idempotent: true,
};
const base = { name: 'get_order', description: 'Read.' };
const geminiSchema = { type: 'OBJECT', properties: { id: { type: 'STRING', description: 'Matches ^O-.' } }, required: ['id'] };
const annotations = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };

const ask = async (query: string, tools: PublishedTool[] = [tool]) => {
  const { agent } = await listen({ door: { tools: () => tools } });
  return fetch(`${agent}/v1/tools${query}`, { headers: as('agent') });
};

describe('GET /v1/tools', () => {
  it.each<[string, object[]]>([
    ['openai-chat', [{ type: 'function', function: { ...base, parameters: schema } }]],
    ['openai-responses', [{ type: 'function', ...base, parameters: schema, strict: true }]],
    ['anthropic', [{ ...base, input_schema: schema }]],
    ['gemini', [{ functionDeclarations: [{ ...base, parameters: geminiSchema }] }]],
    ['mcp', [{ ...base, inputSchema: schema, outputSchema: output, annotations }]],
  ])('gives what %s takes, and its cost', async (dialect, tools) => {
    const body = (await (await ask(`?dialect=${dialect}`)).json()) as object;
    const bytes = JSON.stringify(tools).length;
    expect(body).toMatchObject({ dialect, tools, projection: { tools: 1, bytes, tokens: Math.ceil(bytes / 4), over_limit: false, excluded: [] } });
    expect((body as { tools: unknown }).tools).toEqual(tools);
  });

  it('says where in a schema the provider hears less than the gateway enforces', async () => {
    const { projection } = (await (await ask('?dialect=gemini')).json()) as { projection: { dropped: { pointer: string }[] } };
    expect(projection.dropped).toEqual([
      { tool: 'get_order', pointer: '/properties/id', keyword: 'pattern', why: 'not part of what the provider accepts; said in words' },
      { tool: 'get_order', pointer: '', keyword: 'additionalProperties', why: 'that further members are refused is not said' },
    ]);
  });

  it('gives everything in its own shape without a dialect', async () => {
    const { idempotent: _, ...plain } = tool;
    expect(await (await ask('')).json()).toEqual({ tools: [plain] });
  });

  it('gives a caller without tools an empty list, not an empty declaration', async () => {
    for (const dialect of ['gemini', 'anthropic']) expect(await (await ask(`?dialect=${dialect}`, [])).json()).toMatchObject({ tools: [], projection: { tools: 0 } });
  });

  it('refuses an unknown dialect and names the known ones', async () => {
    const response = await ask('?dialect=smoke');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'INVALID_ENVELOPE', errors: [{ pointer: '/dialect', expected: expect.arrayContaining(['mcp']) }] });
  });
});
