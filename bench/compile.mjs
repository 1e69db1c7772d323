/**
 * What contracts cost: compiling a catalogue of 500 tools from its folder, loading it again from its stored source, and deciding one call.
 * `npm run build && node bench/compile.mjs [tools]`. Each compilation runs in a process of its own, so that memory is its own.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';
import { endsSoon } from '../dist/src/cli/short-lived.js';

endsSoon(); // as the commands that compile do, before anything of the compiler is loaded
const { compileFolder, compileSource } = await import('../dist/src/contract/compile.js');

const example = fileURLToPath(new URL('../examples/retail/contracts', import.meta.url));
const targets = { compileMs: 2000, rssMb: 300, loadMs: 200 };

const args = { order_id: 'O0-417', amount: 2500, currency: 'GBP' };
const wrong = { order_id: 'O0-417', amount: 0, curency: 'GBP' };

const many = 5000;
/** Definitions of one schema, each inside the one before: the most that the language admits. */
const chained = 150;

if (process.argv[2] === 'once') console.log(JSON.stringify(once(process.argv[3])));
else if (process.argv[2] === 'check') console.log(JSON.stringify(checked(process.argv[3])));
else {
  report(Number(process.argv[2] ?? 500));
  reportCheck(`check ${many} tools`, catalogueOf(many), 3);
  reportCheck(`a chain of ${chained} $defs`, chainOf(chained), 5);
}

/** Copies of the example with names and bounds of their own, seven tools a file, so that no two schemas are the same text. */
function catalogueOf(tools) {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-bench-'));
  cpSync(example, folder, { recursive: true });
  rmSync(join(folder, 'retail.yaml'));
  const document = parse(readFileSync(join(example, 'retail.yaml'), 'utf8'));
  const names = Object.keys(document.tools);
  const policies = join(folder, 'policies', 'retail.cedar');
  writeFileSync(policies, readFileSync(policies, 'utf8').replace(new RegExp(`"(${names.join('|')})"`, 'g'), '"$1_0"'));
  for (let n = 0; n * names.length < tools; n++) {
    const own = names.reduce((text, name) => text.replace(new RegExp(`\\b${name}\\b`, 'g'), `${name}_${n}`), stringify(document, { aliasDuplicateObjects: false }));
    const bounded = own.replaceAll('maximum: 50000', `maximum: ${50_000 + n}`).replaceAll('maxLength: 20', `maxLength: ${20 + n}`).replaceAll('O-[0-9]+', `O${n}-[0-9]+`);
    writeFileSync(join(folder, `retail-${n}.yaml`), bounded.replace('service: retail', `service: retail-${n}`).replaceAll('O-41', `O${n}-41`));
  }
  return folder;
}

function chainOf(length) {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-bench-'));
  const $defs = Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, i < length - 1 ? { type: 'object', properties: { a: { $ref: `#/$defs/d${i + 1}` } } } : { type: 'integer' }]));
  const schema = { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs };
  const tool = { version: '1.0.0', effect: 'none', purpose: 'Go down.', args: schema, result: schema, http: { method: 'GET', path: '/x' } };
  writeFileSync(join(folder, 'chain.json'), JSON.stringify({ callgate: 1, service: 's', upstream: { base_url: 'http://127.0.0.1:9' }, tools: { tool } }));
  return folder;
}

function checked(folder) {
  const before = process.cpuUsage();
  const started = performance.now();
  const compiled = compileFolder(folder, {});
  const checkMs = performance.now() - started;
  const { user, system } = process.cpuUsage(before);
  if ('diagnostics' in compiled) throw new Error(JSON.stringify(compiled.diagnostics[0]));
  return { checkMs, cpuMs: (user + system) / 1000, rssMb: process.resourceUsage().maxRSS / 1024 };
}

function once(folder) {
  const before = process.cpuUsage();
  const started = performance.now();
  const compiled = compileFolder(folder, {});
  const compileMs = performance.now() - started;
  const { user, system } = process.cpuUsage(before);
  if ('diagnostics' in compiled) throw new Error(JSON.stringify(compiled.diagnostics[0]));
  const rssMb = process.resourceUsage().maxRSS / 1024;
  const loading = performance.now();
  const { catalogue } = compileSource(compiled.catalogue.source, {});
  const loadMs = performance.now() - loading;
  const first = performance.now();
  decide(catalogue.tools.get('issue_credit_0'));
  return { tools: catalogue.tools.size, compileMs, cpuMs: (user + system) / 1000, rssMb, loadMs, firstUseMs: performance.now() - first, ...perCall(catalogue.tools.get('issue_credit_0')) };
}

/** What the gate asks of a plan for one call: arguments, precondition, the request as bytes. */
function decide(tool) {
  const order = { order_id: 'O0-417', status: 'DELIVERED', refundable: 5000, currency: 'GBP', version: '"7"', customer_id: 'C-17', tenant: 'acme' };
  const scope = { args, bound: { customer_id: 'C-17' }, order, operation: { id: 'op_1' } };
  const admitted = tool.checkArguments(args).ok && tool.preconditions.every(({ check }) => check.evaluate(scope));
  if (!admitted) throw new Error('the call of the benchmark is not admitted');
  return tool.render(scope);
}

function perCall(tool) {
  const us = (work, times = 100_000) => {
    for (let n = 0; n < times / 10; n++) work();
    const started = performance.now();
    for (let n = 0; n < times; n++) work();
    return ((performance.now() - started) * 1000) / times;
  };
  return { argumentsUs: us(() => tool.checkArguments(args)), refusedUs: us(() => tool.checkArguments(wrong)), callUs: us(() => decide(tool)) };
}

function processes(kind, folder, count) {
  const runs = Array.from({ length: count }, () => JSON.parse(execFileSync(process.execPath, [fileURLToPath(import.meta.url), kind, folder], { encoding: 'utf8' })));
  rmSync(folder, { recursive: true });
  return runs;
}

function reportCheck(what, folder, count) {
  const runs = processes('check', folder, count);
  const middle = (name) => runs.map((run) => run[name]).sort((a, b) => a - b)[Math.floor(count / 2)].toFixed(0);
  console.log(`${what.padEnd(20)} ${middle('checkMs')} ms, ${middle('cpuMs')} ms of CPU, ${middle('rssMb')} MB`);
}

function report(tools) {
  const runs = processes('once', catalogueOf(tools), 5);
  const middle = (name) => runs.map((run) => run[name]).sort((a, b) => a - b)[2];
  const told = (name, unit, digits = 0) => `${middle(name).toFixed(digits)} ${unit}`;
  const target = (name, unit) => `(target: under ${targets[name]} ${unit}${middle(name) < targets[name] ? '' : ', NOT REACHED'})`;
  console.log(`${runs[0].tools} tools, median of ${runs.length} processes, ${cpus().length} cores, Node ${process.versions.node}`);
  console.log(`compile the folder   ${told('compileMs', 'ms')} ${target('compileMs', 'ms')}, ${told('cpuMs', 'ms')} of CPU over all threads`);
  console.log(`peak memory          ${told('rssMb', 'MB')} ${target('rssMb', 'MB')}`);
  console.log(`load its source      ${told('loadMs', 'ms', 1)} ${target('loadMs', 'ms')}`);
  console.log(`first call of a tool ${told('firstUseMs', 'ms', 1)} after loading: it is compiled then`);
  console.log(`arguments            ${told('argumentsUs', 'us', 2)} valid, ${told('refusedUs', 'us', 2)} refused with reasons`);
  console.log(`one call             ${told('callUs', 'us', 2)} arguments, precondition, rendered request`);
}
