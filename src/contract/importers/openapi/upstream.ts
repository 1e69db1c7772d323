/** Where the service is and how it knows us, as far as a document says. */
import type { JsonObject } from '../../../model.js';
import { gap } from '../../gaps.js';
import { commented, type Draft } from './draft.js';
import type { Operation } from './operations.js';
import { clean, dereferenced, listOf, objectOf, own, textOf } from './source.js';

export function upstreamDraft(root: JsonObject, service: string, selected: readonly Operation[]): Draft {
  const prefix = service.toUpperCase().replace(/[^A-Z0-9]+/g, '_');
  const auth = authentication(root, selected, `${prefix}_TOKEN`);
  return {
    // A document names test and production systems side by side; which one this is, is no fact about the contract.
    base_url: commented(servers(root), `\${${prefix}_URL}`),
    ...(auth === null ? {} : { auth }),
  };
}

function servers(root: JsonObject): string {
  const urls = listOf(root['servers']).map((server) => clean(textOf(own(server, 'url'))).slice(0, 200)).filter((url) => url !== '').slice(0, 5);
  return urls.length === 0 ? 'The document names no server.' : `The document names ${urls.join(' and ')}.`;
}

/** The first scheme that one of the chosen operations asks for and that a header can carry. */
function authentication(root: JsonObject, selected: readonly Operation[], variable: string): Draft | null {
  const schemes = objectOf(own(root['components'], 'securitySchemes'));
  const asked = selected.flatMap(({ source }) => listOf(source['security'] ?? root['security'])).flatMap((one) => Object.keys(objectOf(one)));
  const names = [...new Set(asked)].filter((name) => Object.hasOwn(schemes, name));
  if (names.length === 0) return null;
  const told = `Asked for: ${names.map(clean).join(', ').slice(0, 200)}. The value is read from the environment at each send.`;
  for (const name of names) {
    const place = header(dereferenced(root, schemes[name]));
    if (place) return commented(told, { header: place.header, value_from: `env:${variable}`, ...(place.prefix === '' ? {} : { prefix: place.prefix }) });
  }
  return commented(told, gap('a header that carries the credential; Callgate sends none in a query, a cookie or a certificate'));
}

function header(scheme: JsonObject): { header: string; prefix: string } | null {
  const type = textOf(scheme['type']).toLowerCase();
  if (type === 'oauth2' || type === 'openidconnect') return { header: 'Authorization', prefix: 'Bearer ' };
  if (type === 'http') {
    const kind = textOf(scheme['scheme']).toLowerCase();
    return kind === 'basic' || kind === 'bearer' ? { header: 'Authorization', prefix: kind === 'basic' ? 'Basic ' : 'Bearer ' } : null;
  }
  const name = textOf(scheme['name']);
  return type === 'apikey' && scheme['in'] === 'header' && /^[A-Za-z][A-Za-z0-9-]*$/.test(name) ? { header: name, prefix: '' } : null;
}
