interface Waiter {
  resolve(text: string): void;
  reject(error: unknown): void;
}

/** The callers that wait for an entry of a result queue, in the order in which they asked. */
export class ResultWaiters {
  readonly #waiters = new Set<Waiter>();
  readonly #onAbandoned: () => void;

  /** @param onAbandoned called when the last waiting caller has given up */
  constructor(onAbandoned: () => void) {
    this.#onAbandoned = onAbandoned;
  }

  get size(): number {
    return this.#waiters.size;
  }

  /** Waits for an entry. Rejects with the reason of `signal`, or the error of `rejectAll`. */
  next(signal: AbortSignal | undefined): Promise<string> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiters.delete(waiter);
        signal?.removeEventListener("abort", onAbort);
      };
      const waiter: Waiter = {
        resolve(text) {
          leave();
          resolve(text);
        },
        reject(error) {
          leave();
          reject(error);
        },
      };
      const onAbort = (): void => {
        waiter.reject(signal?.reason);
        if (this.#waiters.size === 0) this.#onAbandoned();
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.add(waiter);
    });
  }

  /** Gives an entry to the caller that has waited longest. @returns false when no caller waits */
  give(text: string): boolean {
    const [first] = this.#waiters;
    first?.resolve(text);
    return first !== undefined;
  }

  rejectAll(error: unknown): void {
    for (const waiter of [...this.#waiters]) waiter.reject(error);
  }
}
