/** Requests to a gateway as a plain HTTP client makes them. No answer is an answer too. */
export interface Heard { http: number; body: Record<string, unknown>; text: string }

const patienceMs = 60_000;

/** Null: the connection ended, or could not be made, and nobody knows what became of it. */
export async function ask(url: string, key: string, body?: object, method = body ? 'POST' : 'GET', headers: Record<string, string> = {}): Promise<Heard | null> {
  try {
    const response = await fetch(url, {
      method, signal: AbortSignal.timeout(patienceMs), headers: { authorization: `Bearer ${key}`, ...(body ? { 'content-type': 'application/json' } : {}), ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    return { http: response.status, text, body: JSON.parse(text) as Record<string, unknown> };
  } catch {
    return null;
  }
}
