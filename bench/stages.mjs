/** Where the time of calls goes, from the gateway's own metrics. */
const line = /^(callgate_stage_seconds|callgate_http_request_seconds)_(sum|count)\{(.*)\} (\S+)$/gm;

/** @returns totals since the start: `{steps: {'validate observe': seconds}, times: {'validate observe': n}, httpSeconds}` */
export async function readStages(controlUrl) {
  const text = await (await fetch(`${controlUrl}/metrics`)).text();
  const totals = { steps: {}, times: {}, httpSeconds: 0 };
  for (const [, name, what, labels, value] of text.matchAll(line)) {
    const { stage, step, route } = Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, is]) => [label, is]));
    if (name === 'callgate_stage_seconds') totals[what === 'sum' ? 'steps' : 'times'][`${stage} ${step}`] = Number(value);
    else if (what === 'sum' && route === '/v1/calls') totals.httpSeconds += Number(value);
  }
  return totals;
}

/**
 * Milliseconds of each step per call between two readings, and of what is around them: reading the request, knowing the caller, writing the answer.
 * @returns {Record<string, number>}
 */
export function stagesBetween(before, after, calls) {
  const perCall = (seconds) => (seconds / calls) * 1000;
  const steps = Object.fromEntries(Object.entries(after.steps).map(([step, seconds]) => [step, perCall(seconds - (before.steps[step] ?? 0))]));
  const within = Object.values(steps).reduce((total, ms) => total + ms, 0);
  return { ...steps, 'around them': perCall(after.httpSeconds - before.httpSeconds) - within };
}
