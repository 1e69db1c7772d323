/**
 * Told once, to whoever listens: the part of an AbortSignal that a call needs. An AbortController with its events costs several times what the
 * rest of a wait does, and every call has two that nobody ever aborts. A leaf.
 */
export interface Signal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

export class Ending implements Signal {
  private over = false;
  private readonly listeners = new Set<() => void>();

  get aborted(): boolean {
    return this.over;
  }

  /** After the first time nothing more is told. */
  abort(): void {
    if (this.over) return;
    this.over = true;
    for (const tell of this.listeners) tell();
    this.listeners.clear();
  }

  addEventListener(_: 'abort', listener: () => void): void {
    if (!this.over) this.listeners.add(listener);
  }

  removeEventListener(_: 'abort', listener: () => void): void {
    this.listeners.delete(listener);
  }
}
