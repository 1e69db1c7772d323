/** The request of a tool: its templates checked and compiled into one function. */
import type { RenderedRequest, Scope } from './plan.js';
import type { Names } from './expressions.js';
import type { Path } from './pointer.js';
import type { Site } from './site.js';
import { memberName, pathProblem, renderRequest, type RequestMember, type RequestTemplate } from './templates.js';
import type { ToolEntry } from './tool-entry.js';

/** Set by the connection or the gateway, or a place for a secret that would then be a literal. */
const forbiddenHeaders = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'upgrade',
  'te',
  'trailer',
  'expect',
  'authorization',
  'proxy-authorization',
  'cookie',
  'callgate-attempt',
  'traceparent',
  'tracestate',
]);

export function compileRequest(entry: ToolEntry, site: Site, names: Names, base: string): (scope: Scope) => RenderedRequest {
  const { http } = entry.source;
  const path: Path = [...entry.path, 'http'];
  const parts = site.parts([...path, 'path'], http.path);
  const problem = parts ? pathProblem(parts) : undefined;
  if (problem) site.findings.value(site.file, [...path, 'path'], 'CG112', `the path cannot be used: ${problem}`);
  if (http.body !== undefined && !['POST', 'PUT', 'PATCH'].includes(http.method))
    site.findings.key(site.file, [...path, 'body'], 'CG205', `a ${http.method} has no body`);
  const request: RequestTemplate = {
    method: http.method,
    base,
    path: parts ? site.template([...path, 'path'], http.path, names) : [],
    query: inOrder(http.query, [...path, 'query'], site, names),
    headers: [...standardHeaders(http), ...compileHeaders(entry, site, names, [...path, 'headers'])],
    body: http.body === undefined ? null : site.value([...path, 'body'], http.body, names),
  };
  return (scope) => renderRequest(request, scope);
}

function standardHeaders({ headers = {}, body }: ToolEntry['source']['http']): RequestMember[] {
  const own = new Set(Object.keys(headers).map((name) => memberName(name).name.toLowerCase()));
  const standard = [
    { name: 'accept', value: ['application/json'] },
    ...(body === undefined ? [] : [{ name: 'content-type', value: ['application/json'] }]),
  ];
  return standard.filter(({ name }) => !own.has(name));
}

function compileHeaders(entry: ToolEntry, site: Site, names: Names, path: Path): RequestMember[] {
  const secret = entry.document.upstream.auth?.header.toLowerCase();
  for (const written of Object.keys(entry.source.http.headers ?? {})) {
    const lower = memberName(written).name.toLowerCase();
    if (forbiddenHeaders.has(lower) || lower === secret)
      site.findings.key(site.file, [...path, written], 'CG614', `a contract cannot set the header \`${lower}\``);
  }
  return inOrder(entry.source.http.headers, path, site, names).map((member) => ({ ...member, name: member.name.toLowerCase() }));
}

/** By name, because the order of members is no part of the canonical source and the request has to be. */
function inOrder(members: Record<string, string> | undefined, path: Path, site: Site, names: Names): RequestMember[] {
  return Object.entries(members ?? {})
    .map(([written, text]) => {
      const below = [...path, written];
      const bare = /^\{([^{}]+)\}$/.exec(text)?.[1] ?? null;
      return { ...site.named(below, written, bare), value: site.template(below, text, names) };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
