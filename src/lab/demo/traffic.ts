import type { Dispatcher } from "undici";
import { type Clock, delay } from "../../base/clock/clock.ts";
import { type Outcome, send } from "./client.ts";
import type { WorkloadRequest } from "./workload.ts";

/** Told of every request. */
export interface TrafficObserver {
  sent?(): void;
  ended(outcome: Outcome): void;
}

/**
 * Sends every request of a list at its time, whether or not earlier ones were answered, and resolves when the last answer
 * is there. Aborting stops the sending, not what is under way.
 */
export async function runTraffic(
  client: Dispatcher,
  clock: Clock,
  list: readonly WorkloadRequest[],
  signal: AbortSignal,
  observer: TrafficObserver,
): Promise<void> {
  const begin = clock.now();
  const answers = new Set<Promise<void>>();
  for (const request of list) {
    const wait = begin + request.at - clock.now();
    if (wait > 0) await delay(clock, wait, signal).catch(() => undefined);
    if (signal.aborted) break;
    observer.sent?.();
    const answer = send(client, request, clock).then((outcome) => {
      answers.delete(answer);
      observer.ended(outcome);
    });
    answers.add(answer);
  }
  await Promise.all(answers);
}
