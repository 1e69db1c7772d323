import { describe, expect, it } from 'vitest';
import { SchemaCompiler } from '../../src/contract/schemas.js';
import type { Json, JsonObject } from '../../src/model.js';
import { cpuMs } from '../support/cpu.js';

/** One process serves every agent: if one caller's arguments could hold up the event loop, or fill the ledger with errors, all would wait. */
describe('arguments made to be slow', () => {
  const check = (schema: JsonObject, args: JsonObject) => new SchemaCompiler().arguments(schema, 'none').check(args);
  const items = (item: (n: number) => Json, count: number): Json[] => Array.from({ length: count }, (_, n) => item(n));
  const timed = <T>(work: () => T): { ms: number; result: T } => {
    work(); // what is generated at first use is not the caller's doing
    let result: T | undefined;
    const ms = cpuMs(() => { result = work(); });
    return { ms, result: result as T };
  };

  it('unique items are not compared pair by pair, and not at all beyond what is allowed', () => {
    const schema = { type: 'object', properties: { xs: { type: 'array', maxItems: 10, uniqueItems: true, items: { type: 'object', properties: { a: { type: 'integer' } } } } } };
    const compiled = new SchemaCompiler().arguments(schema, 'none');
    const { ms, result } = timed(() => compiled.check({ xs: items((n) => ({ a: n }), 8000) }));
    expect(result.ok).toBe(false);
    expect(ms).toBeLessThan(150); // it was 500 to 800 ms
    expect(check(schema, { xs: [{ a: 1 }, { a: 2 }] }).ok).toBe(true);
    expect(check(schema, { xs: [{ a: 1 }, { a: 1 }] }).ok).toBe(false);
  });

  it('a long enumeration is neither told whole nor compared with every wrong value', () => {
    const names = items((n) => `warehouse-location-europe-${n}-aisle`, 2000);
    const compiled = new SchemaCompiler().arguments({ type: 'object', properties: { xs: { type: 'array', maxItems: 60, items: { enum: names } } } }, 'none');
    const { ms, result } = timed(() => compiled.check({ xs: items((n) => `warehouse-location-eurepo-${n}-aisls`, 54) }));
    expect(ms).toBeLessThan(150); // it was a second
    expect(JSON.stringify(result).length).toBeLessThan(80_000); // it was 1.5 MB
  });
});
