import type { Clock } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";

/**
 * Runs `task` for at most `limit` milliseconds, and no longer than until `signal` is aborted. Its caller waits no longer than
 * that even for a task that does not listen to its own signal.
 * @throws SluiceError METRIC_SOURCE when the time is up; the reason of `signal`; what the task throws
 */
export function withDeadline<T>(
  clock: Clock,
  limit: number,
  signal: AbortSignal,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const own = new AbortController();
    const giveUp = (reason: unknown): void => {
      done();
      reject(reason);
      own.abort(reason);
    };
    const timer = clock.after(limit, () => giveUp(new SluiceError("METRIC_SOURCE", `no answer within ${limit} ms`)));
    const onAbort = (): void => giveUp(signal.reason);
    const done = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", onAbort);
    };
    signal.addEventListener("abort", onAbort);
    task(own.signal).then(
      (value) => {
        done();
        resolve(value);
      },
      (error: unknown) => {
        done();
        reject(error);
      },
    );
  });
}
