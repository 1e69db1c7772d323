/** TLS of a listener, and the certificates of those who call it. */
import { readFileSync } from 'node:fs';
import type { Server as TlsServer, TlsOptions } from 'node:tls';
import { TLSSocket } from 'node:tls';
import type { Socket } from 'node:net';
import type { ClientCertificate } from '../ports.js';

export interface TlsFiles {
  certFile: string;
  keyFile: string;
  /** Of the authorities whose client certificates are believed; null: nobody is asked for one. */
  clientCaFile: string | null;
  /** Nobody is let in without one; else a caller without one needs another credential. */
  clientRequired: boolean;
}

/** @throws Error in words for the operator */
export function readTls({ certFile, keyFile, clientCaFile, clientRequired }: TlsFiles): TlsOptions {
  const ca = clientCaFile === null ? {} : { ca: read(clientCaFile), requestCert: true, rejectUnauthorized: clientRequired };
  return { cert: read(certFile), key: read(keyFile), minVersion: 'TLSv1.2', ...ca };
}

function read(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new Error(`the file \`${file}\`, which a listener needs for TLS, cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`);
  }
}

/** New connections get what the files hold by then: certificates are renewed while the gateway runs. @returns what ends it */
export function followTls(server: TlsServer, files: TlsFiles, everyMs: number, failed: (error: Error) => void): () => void {
  const timer = setInterval(() => {
    try {
      server.setSecureContext(readTls(files));
    } catch (error) {
      failed(error as Error);
    }
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}

const presented = new WeakMap<Socket, ClientCertificate | null>();

/** Null where there is none, or none that an authority of the listener's has signed. Read once for each connection. */
export function clientCertificate(socket: Socket): ClientCertificate | null {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return null;
  const known = presented.get(socket) ?? socket.getPeerX509Certificate() ?? null;
  presented.set(socket, known);
  return known;
}
