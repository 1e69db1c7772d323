/** One JSON object a line; what a line says is redacted as it is written, wherever in it a secret stands. */
import { type DestinationStream, type Logger, pino } from 'pino';
import type { Json } from '../model.js';
import { redact } from './redact.js';

export interface LogOptions {
  level: string;
  /** Where lines go; standard output by default. */
  destination?: DestinationStream;
  /** Of `fingerprintSecret`, so that marks in the log match those in receipts. */
  key?: Buffer | string;
}

export function createLog({ level, destination, key }: LogOptions): Logger {
  const options = {
    level,
    base: { pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    // on the finished line rather than on the arguments: messages, bindings of children, stacks and causes pass here alike
    hooks: { streamWrite: (line: string) => redactLine(line, key) },
  };
  return destination ? pino(options, destination) : pino(options);
}

function redactLine(line: string, key: Buffer | string | undefined): string {
  try {
    return `${JSON.stringify(redact(JSON.parse(line) as Json, key === undefined ? {} : { key }))}\n`;
  } catch {
    return `${JSON.stringify({ level: 'error', msg: 'a log line could not be redacted and was dropped' })}\n`;
  }
}
