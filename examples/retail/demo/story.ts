/** What the demonstration says, for a reader who knows nothing of the product. Plain text from what was seen; it decides nothing. */
import type { Answer, Json, JsonObject } from '../../../src/model.js';
import type { NaiveStep } from '../naive-client.js';

export interface Credit { order_id: string; amount: number; key: string; receipt_id: string }

export function opening(): string {
  return `
THE REFUND THAT SUCCEEDED TWICE

A shop keeps its books in a web service. An AI agent works for the shop: it talks to customers, and when it
has decided on something it calls that service. A customer was promised 25.00 of store credit for order O-417.

The agent makes the call. The shop writes the credit into its books, and then the connection breaks: the
answer never arrives. That is an ordinary bad day of a network. It happens twice below, to two agents.
`;
}

export function naiveScene(plans: readonly NaiveStep[], books: readonly Credit[]): string {
  const lines = plans.flatMap((step) => [
    `   agent    Plan ${step.plan}: give 25.00 for order O-417. Request ${short(step.key)}.`,
    step.saw === 'answer'
      ? `   shop     Done (HTTP ${step.status}), receipt ${receiptOf(step.body)}.`
      : `   agent    No answer: ${step.reason}. It must have failed, so I plan again.`,
  ]);
  return `
1. WITHOUT A GATEWAY: when no answer comes, the agent plans again, and a new plan is a new request

${lines.join('\n')}

   The shop's books:
${listed(books)}

   ${counted(books)}. Every request was valid, no error was seen, and the customer has been paid twice.
`;
}

export function gatedScene(first: Answer, second: Answer, receipt: JsonObject, books: readonly Credit[]): string {
  return `
2. WITH CALLGATE: the agent only proposes; Callgate writes down what is meant, sends it, and finds out what happened

   agent    Plan 1: give 25.00 for order O-417. Call call_1.
   callgate Order O-417 is delivered, 25.00 is within its balance, and this agent may do it: sent as
            ${first.operation_id}. No answer came. It may have happened,
            so it is not sent again: the shop is asked for that number, and has it in its books.
            Answer to the agent: ${told(first)}.
   agent    Something looked slow, so I plan again. Call call_2.
   callgate The same thing is meant as in ${second.duplicate_of ?? 'no earlier call'}, and it was done.
            Answer to the agent: ${told(second)}.

   The shop's books:
${listed(books)}

   ${counted(books)}.

   What Callgate keeps of it, for whoever asks later (receipt ${String(receipt['id'])}):
${evidence(receipt)}
`;
}

export function ending(): string {
  return `
Both agents lost the same answer. Try it yourself: \`npm start\` prints a call to paste; README.md goes on from there.
`;
}

function told({ disposition, outcome, verified }: Answer): string {
  return `${disposition}, outcome ${outcome}, ${verified ? 'verified at the shop' : 'not verified'}`;
}

function listed(books: readonly Credit[]): string {
  return books.map(({ amount, order_id, receipt_id }) => `     credit  ${(amount / 100).toFixed(2)}  order ${order_id}  receipt ${receipt_id}`).join('\n');
}

function counted({ length }: readonly Credit[]): string {
  return length === 1 ? 'One credit' : `${['No', 'One', 'Two', 'Three'][length] ?? length} credits`;
}

function evidence(receipt: JsonObject): string {
  const [attempt] = receipt['attempts'] as JsonObject[];
  const readback = receipt['readback'] as JsonObject;
  const rows: [string, Json | undefined][] = [
    ['tool', receipt['tool']],
    ['sent under the key', receipt['idempotency_key']],
    ['attempt 1', `${String(attempt?.['reason'])}; so its outcome was ${String(attempt?.['outcome'])}`],
    ['then asked', `${String(readback['tool'])}: ${JSON.stringify(readback['result'])}`],
    ['outcome', `${String(receipt['outcome'])}, ${receipt['verified'] === true ? 'verified' : 'not verified'}`],
  ];
  return rows.map(([name, value]) => `     ${name.padEnd(18)}  ${String(value)}`).join('\n');
}

function short(key: string): string {
  return key.slice(0, 'call_'.length + 8);
}

function receiptOf(body: unknown): string {
  return String((body as { receipt_id?: unknown }).receipt_id);
}
