/**
 * Who is calling, on which plane. An agent's credential never works on the control listener, so an agent that can
 * reach both still cannot approve itself; and nothing but an agent's works on the agent listener (protocol.md, planes).
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Refusal, refuse } from '../errors.js';
import type { Principal, Role } from '../model.js';
import type { Authenticator, Plane } from '../ports.js';
import type { Enter, Leave } from './caller-limits.js';
import { sendRefusal } from './reply.js';
import type { App } from './server.js';
import { clientCertificate } from './tls.js';

const bearer = /^Bearer +(\S+)$/i;

/** A credential that combines `agent` with another role passes on neither plane. */
const admits: Record<Plane, (roles: readonly Role[]) => boolean> = {
  agent: (roles) => roles.length > 0 && roles.every((role) => role === 'agent'),
  control: (roles) => !roles.includes('agent'),
};

/** Every route that is registered in this scope afterwards asks for a credential, before a byte of the body is read. */
export function requireCredential(scope: App, plane: Plane, authenticator: Authenticator, enter: Enter = () => () => undefined): void {
  scope.decorateRequest('principal');
  scope.decorateRequest('leave', null);
  scope.addHook('onRequest', async (request, reply) => {
    const caller = await identify(request, plane, authenticator);
    if ('refused' in caller) return sendRefusal(reply, caller);
    const entered = await enter(caller);
    if (typeof entered !== 'function') return sendRefusal(reply, entered);
    request.setDecorator<Leave>('leave', entered);
    request.setDecorator<Principal>('principal', caller);
    return undefined;
  });
  // When the work is done, and not when the caller hangs up: whoever does not wait for an answer still has it under way.
  scope.addHook('onSend', (request, _reply, payload, next) => {
    request.getDecorator<Leave | null>('leave')?.();
    next(null, payload);
  });
}

const notACallers = 'The certificate is not one of a caller.';

async function identify(request: FastifyRequest, plane: Plane, authenticator: Authenticator): Promise<Principal | Refusal> {
  const credential = bearer.exec(request.headers.authorization ?? '')?.[1];
  const certificate = authenticator.ofCertificate ? clientCertificate(request.raw.socket) : null;
  const proven = certificate && (authenticator.ofCertificate?.(certificate) ?? null);
  if (proven === 'revoked') return refuse('UNAUTHENTICATED', notACallers);
  if (certificate && request.headers.authorization === undefined) return proven ? admitted(proven, plane) : refuse('UNAUTHENTICATED', notACallers);
  if (credential === undefined) return refuse('UNAUTHENTICATED', 'The request has no header `Authorization: Bearer CREDENTIAL`.');
  const principal = await authenticator.authenticate(credential);
  return principal ? admitted(principal, plane) : refuse('UNAUTHENTICATED', 'The key is unknown, expired or revoked, or the token is not valid here.');
}

function admitted(principal: Principal, plane: Plane): Principal | Refusal {
  if (!admits[plane](principal.roles)) return refuse('WRONG_PLANE', `The role of this credential has no use on the ${plane} listener.`);
  return principal;
}

export function principalOf(request: FastifyRequest): Principal {
  return request.getDecorator<Principal>('principal');
}

/** A hook for one route of the control plane: the caller needs at least one of these roles. */
export function allow(...allowed: readonly Role[]) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    if (principalOf(request).roles.some((role) => allowed.includes(role))) return undefined;
    return sendRefusal(reply, refuse('FORBIDDEN', `This path needs one of the roles ${allowed.map((role) => `\`${role}\``).join(', ')}.`));
  };
}
