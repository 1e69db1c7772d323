/**
 * Heads of requests, as bytes: each begins as one that the gateway takes, and is damaged where HTTP has rules: methods, targets, names, values,
 * line ends, lengths. What two readers of HTTP may read differently comes from lists of what they have been seen to.
 */
import fc from 'fast-check';

export interface Head { method: string; target: string; version: string; fields: string[]; lineEnd: string; body: string }

const oddMethods = fc.constantFrom('GET', 'POST', 'PUT', 'HEAD', 'OPTIONS', 'DELETE', 'PATCH', 'TRACE', 'CONNECT', 'PROPFIND', 'PRI', 'get', 'POST ', ' POST', 'G\tET', '', 'M-SEARCH', 'X'.repeat(300), 'GÉT');
const oddTargets = fc.oneof(
  fc.constantFrom('*', '', '/', '//', '/..', '/v1/../v1/tools', '/v1/tools/..', '/v1/./tools', '/%2e%2e/v1/tools', '/v1%2ftools', '/v1/operations/%2e%2e', '/v1/operations/..%2f..%2fv1%2freceipts', '/v1/operations/%00', '/v1/operations/%', '/v1/operations/%c0%ae',
    '/v1/operations/\u00ff', '/v1/tools#x', '/v1/tools?%', '/v1/tools?dialect=a&dialect=b', '/v1/tools?__proto__[x]=1', '/v1/tools?a[b]=c', 'http://127.0.0.1/v1/tools', 'http://elsewhere/v1/tools', 'https://', 'elsewhere:443', '/v1/tools HTTP/1.1', '\\v1\\tools', '/v1/tools\u0000', '/V1/TOOLS', '/v1/tools/', '/v1/tools;x=1', '/constructor', '/__proto__/x'),
  fc.integer({ min: 1, max: 20_000 }).map((n) => `/v1/operations/${'a'.repeat(n)}`),
  fc.integer({ min: 1, max: 3_000 }).map((n) => `/${'x/'.repeat(n)}`),
  fc.integer({ min: 1, max: 1_500 }).map((n) => `/v1/tools?${'a=1&'.repeat(n)}`),
  fc.string({ unit: 'binary-ascii', maxLength: 40 }).map((text) => `/${text}`),
);
const versions = fc.constantFrom('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/1.2', 'HTTP/11', 'http/1.1', 'HTTP/1.1 ', '', 'HTTPS/1.1', 'HTTP/1.1\tx');

/** Who reads the first of these and who the second has let requests be smuggled past whatever stood in front. */
export const ambiguous: readonly string[][] = [
  ['content-length: 5', 'transfer-encoding: chunked'], ['transfer-encoding: chunked', 'content-length: 5'], ['content-length: 5', 'content-length: 6'], ['content-length: 5', 'content-length: 5'], ['content-length: 5, 5'], ['content-length: 5,6'],
  ['content-length: +5'], ['content-length: -5'], ['content-length: 5x'], ['content-length: 0x5'], ['content-length: 5 5'], ['content-length: 99999999999999999999'], ['content-length: 18446744073709551621'], ['content-length:'], ['content-length: five'],
  ['transfer-encoding: chunked', 'transfer-encoding: chunked'], ['transfer-encoding: chunked, identity'], ['transfer-encoding: identity'], ['transfer-encoding: xchunked'], ['transfer-encoding: chunked;q=1'], ['transfer-encoding:\u000bchunked'], ['transfer-encoding: "chunked"'], ['transfer-encoding'],
  ['transfer-encoding : chunked'], ['content-length : 5'], ['x: y\rcontent-length: 5'], ['x: y\ncontent-length: 5'], ['x:\r\n content-length: 5'], ['content-length: 1', ' 0'], ['x: y', '\tz'], [' x: y'],
];

const oddFields: fc.Arbitrary<string[]> = fc.oneof(
  fc.constantFrom(...(ambiguous as string[][])),
  fc.constantFrom<string[][]>([''], [':'], [': x'], ['x'], ['x y: z'], ['x\u0000: y'], ['x: \u0000'], ['x: \u007f'], ['x: \u0001'], ['é: y'], ['x: é\u00ff'], ['host: elsewhere'], ['host:'], ['host: a', 'host: b'], ['host: a\u0000b'], ['host: 127.0.0.1:0'], ['expect: 100-continue'], ['expect: 200-ok'], ['connection: upgrade', 'upgrade: websocket', 'sec-websocket-key: x'], ['connection: upgrade', 'upgrade: h2c', 'http2-settings: AAMAAABk'], ['upgrade: TLS/1.0'], ['connection: close, authorization'], ['connection: keep-alive', 'keep-alive: timeout=999999'], ['trailer: authorization'], ['te: trailers'], ['content-encoding: gzip'], ['content-type: application/json; charset=utf-7'], ['content-type: multipart/form-data; boundary=x'], ['content-type: application/json', 'content-type: text/plain'],
    ['accept: */*;q=x'], ['accept-encoding: br;q=0, gzip;q=9'], ['range: bytes=0-0,0-0'], ['if-none-match: *'], ['x-forwarded-for: 127.0.0.1'], ['x-forwarded-host: elsewhere'], ['x-http-method-override: DELETE'], ['x-original-url: /v1/receipts'], ['forwarded: for=127.0.0.1'], ['cookie: a=b; a=c'], ['authorization: Bearer'], ['authorization: Basic YTpi'], ['authorization: Bearer a', 'authorization: Bearer b'], ['authorization: Bearer  \t'], ['authorization: Bearer a.b.c'], ['prefer: wait=1', 'prefer: wait=9'], ['idempotency-key: a', 'idempotency-key: b'], ['idempotency-key: \u00ff\u00fe'], ['traceparent: 00-0-0-00'], ['last-event-id: x'], ['proxy-authorization: Bearer x'], ['proxy-connection: keep-alive']),
  fc.tuple(fc.constantFrom('authorization: Bearer ', 'prefer: ', 'idempotency-key: ', 'x: ', 'cookie: ', 'traceparent: ', 'content-type: ', 'host: '), fc.integer({ min: 1, max: 18_000 })).map(([name, n]) => [name + 'a'.repeat(n)]),
  fc.tuple(fc.constantFrom('authorization', 'prefer', 'idempotency-key', 'content-type', 'content-encoding', 'traceparent', 'accept', 'connection', 'expect', 'host', 'cookie', 'webhook-signature', 'webhook-timestamp', 'x-forwarded-for'), fc.constantFrom('a', 'Bearer a', 'wait', 'wait=', 'wait="', 'application/json', 'application/json;', 'v1,', '0', 'a='), fc.constantFrom(' ', '\t', '; ', ', ', '"', '=', '/'), fc.integer({ min: 1, max: 15_000 }), fc.constantFrom('x', '"', ';', '=', '/')).map(([name, begin, run, n, end]) => [`${name}: ${begin}${run.repeat(n / run.length)}${end}`]),
  fc.integer({ min: 1, max: 2_500 }).map((n) => Array.from({ length: n }, (_, at) => `x${at}: 1`)),
  fc.integer({ min: 1, max: 1_500 }).map((n) => Array.from({ length: n }, () => 'x: 1')),
  fc.integer({ min: 1, max: 12_000 }).map((n) => [`${'n'.repeat(n)}: 1`]),
  fc.integer({ min: 1, max: 4_000 }).map((n) => [`prefer: ${'wait=1, '.repeat(n / 4)}`]),
  fc.string({ unit: 'binary-ascii', maxLength: 60 }).map((text) => [text]),
);

const bodies = fc.constantFrom('', '{}', '5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n', '0\r\n\r\n', '0\r\nauthorization: x\r\n\r\n', 'ffffffffffffffff\r\nx', '-1\r\n', '5;a=b\r\nhello\r\n0\r\n\r\n', '5\nhello\n0\n\n', `1;${'x'.repeat(20_000)}\r\na\r\n0\r\n\r\n`, 'zz\r\n', '{"session_id":"s"}', '\u0000'.repeat(100), 'x'.repeat(5_000));

/** @param base requests that are taken, as they are */
export function damagedHeads(base: readonly Head[]): fc.Arbitrary<Buffer> {
  const maybe = <T>(odd: fc.Arbitrary<T>, weight = 3): fc.Arbitrary<T | undefined> => fc.option(odd, { nil: undefined, freq: weight });
  return fc.tuple(
    fc.constantFrom(...base), maybe(oddMethods, 1), maybe(oddTargets, 1), maybe(versions, 1), fc.array(fc.tuple(oddFields, fc.nat()), { maxLength: 3 }),
    fc.option(fc.nat()), maybe(fc.constantFrom('\n', '\r', '\r\r\n', '\n\r', '\r\n\r\n', '\u0000\r\n'), 1), maybe(bodies), fc.option(fc.tuple(fc.nat(), fc.nat(255)), { freq: 1 }), fc.option(fc.nat(), { freq: 1 }),
  ).map(([head, method, target, version, more, dropped, lineEnd, body, byte, cut]) => {
    const fields = [...head.fields];
    for (const [extra, at] of more) fields.splice(at % (fields.length + 1), 0, ...extra);
    if (dropped !== null) fields.splice(dropped % fields.length, 1);
    const bytes = bytesOf({ method: method ?? head.method, target: target ?? head.target, version: version ?? head.version, fields, lineEnd: lineEnd ?? '\r\n', body: body ?? head.body });
    if (byte && bytes.length > 0) bytes[byte[0] % bytes.length] = byte[1];
    return cut === null ? bytes : bytes.subarray(0, cut % (bytes.length + 1));
  });
}

export function bytesOf({ method, target, version, fields, lineEnd, body }: Head): Buffer {
  return Buffer.from([`${method} ${target} ${version}`, ...fields, '', body].join(lineEnd), 'latin1');
}
