/** A timer that was armed. `cancel` does nothing when the timer is already cancelled or has fired. */
export interface Timer {
  cancel(): void;
}

/**
 * Time as a parameter. Code outside this room reads time from here only, so the simulator runs in virtual time and no test
 * sleeps.
 */
export interface Clock {
  /** Monotonic milliseconds, fractional, from an arbitrary origin. For durations and ages. */
  now(): number;
  /** Wall-clock milliseconds since the Unix epoch. For deadlines that others set, and for times that people read. */
  wall(): number;
  /**
   * Runs `callback` once after `ms` milliseconds (negative counts as 0).
   * @param background true = the timer alone keeps no process alive
   */
  after(ms: number, callback: () => void, background?: boolean): Timer;
  /** Runs `callback` after the I/O events that are already waiting (a macrotask). */
  soon(callback: () => void): void;
}

/**
 * Runs `expired` after `ms` milliseconds, once the I/O events that are waiting by then have run. Node runs timers before it reads
 * sockets: after a pause of the process, an answer that arrived in time must not count as late. `cancel` holds until `expired` runs.
 * @param background as in {@link Clock.after}
 */
export function expireAfter(clock: Clock, ms: number, expired: () => void, background = false): Timer {
  let isCancelled = false;
  const onDue = (): void =>
    clock.soon(() => {
      if (!isCancelled) expired();
    });
  const timer = clock.after(ms, onDue, background);
  return {
    cancel() {
      isCancelled = true;
      timer.cancel();
    },
  };
}

/** Resolves after `ms` milliseconds of `clock`; rejects with the signal's reason when it is aborted first. */
export function delay(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      reject(signal?.reason);
    };
    const timer = clock.after(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
