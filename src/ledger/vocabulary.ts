/**
 * What stored answers and requests have in common, for deflate to refer to: member names of ours, and words that services commonly use.
 *
 * PART OF THE STORED FORM. What was packed with it opens with nothing else, so it never changes; a better one is another version of the sealed
 * form (seal.ts) beside this one. It is code: nothing of any call, tenant or contract is in it. What is most common stands last, where it
 * costs least to refer to.
 */
const requests = [
  '"proposal":{"principal":{"tenant":"","id":"","roles":["agent"],"subject":null,"purposes":["tools":"*","grants":{"assertSubject":false,"ownKeys":false}},',
  '"envelope":{"sessionId":"","turnId":"","intentId":"","callId":"","purpose":"',
  '"items":[{"key":"","identity":""},{"method":"PATCH","method":"DELETE","method":"PUT","body":null},"bound":{},"observed":{},"resource":null,"untrusted":true,',
  '"kept":[{"type":"","key":"","state":""}],"touched":[""],"state":null,"never":{}}}',
  '{"request":{"method":"POST","url":"https://","url":"http://","headers":{"accept":"application/json","content-type":"application/json","if-match":"\\"","idempotency-key":"op_',
  '"},"body":"{\\"amount\\":,\\"currency\\":\\"\\"}"},"args":{"},"bound":{"},"observed":{"","version":"\\""}},',
  '"untrusted":false,"baseline":{"entity":"","state":"","kept":[],"touched":[],"never":{"',
];

const words = [
  'description', 'quantity', 'payment_method', 'address', 'country', 'postal_code', 'first_name', 'last_name', 'email', 'phone', 'username', 'password', 'priority',
  'category', 'comment', 'message', 'title', 'subject', 'balance', 'account', 'invoice', 'product', 'ticket', 'booking', 'reservation', 'transaction', 'payment', 'refund',
  'order', 'customer', 'date', 'time', 'reason', 'number', 'price', 'total', 'count', 'url', 'key', 'code', 'state', 'items', 'reference', 'updated_at', 'created_at', 'user_id',
  'account_id', 'customer_id', 'order_id', 'currency', 'version', 'status', 'type', 'name', 'value', 'amount', 'id',
].map((word) => `"${word}":"`).join('","');

const answers = [
  '"approval":{"id":"apr_","by":"reviewer","digest":"sha256:","summary":"","left":{"baseline":{"entity":"',
  '"partial":{"items":[{"key":"","outcome":"failed"},{"key":"","outcome":"unknown"},{"key":"","outcome":"committed"}],"counts":{"total":,"committed":,"failed":0,"unknown":0}},',
  '"retryWith":{"tool":"","arguments":{"known":null,"verifyWith":{"tool":"","arguments":{"compensate":{"tool":"","arguments":{"retryAfterMs":1000,"untrusted":true,',
  '"problem":{"code":"UPSTREAM_REJECTED","detail":"The service ","contractCode":"","next":"abandon","upstream":{"',
  'null,true,false,"PENDING","DONE","2026-01-01T00:00:00.000Z","{"result":null,"states":{"":"},"legal_actions":["","decided":null}',
  '{"result":{"id":"","},"states":{},"legal_actions":[],"decided":{"resource":{"type":"","id":"","attributes":{"","status":"","version":"\\""}},"args":{"',
];

export const vocabulary = Buffer.from([...requests, words, ...answers].join(''));
