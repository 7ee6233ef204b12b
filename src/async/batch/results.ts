import type { Clock } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { interruptible } from "../../base/process/lifecycle.ts";
import type { ResultMessage } from "../brokers/messages/message.ts";
import { encodeResult } from "../brokers/messages/result.ts";
import type { Producer } from "../brokers/queue-client.ts";
import { print, tell } from "./print.ts";
import { openQueueStore, type QueueStoreLocation } from "./queue-store.ts";

export interface ResultsOptions {
  readonly place: QueueStoreLocation;
  readonly queue: string | undefined;
  /** Undefined = no limit. */
  readonly count: number | undefined;
  /** Waits for more results until the process ends. */
  readonly follow: boolean;
  /** Milliseconds without a result until the command ends, unless it follows; 0 = takes only the results that are there. */
  readonly timeout: number;
  /** Prints the payloads alone. */
  readonly payload: boolean;
}

/** No result came in time. */
const NONE = Symbol("none");
/** Milliseconds of one attempt to take a waiting result, and the number of attempts. */
const ATTEMPT = 1000;
const ATTEMPTS = 10;

/**
 * Takes results from a queue and prints them, one per line.
 * @returns the exit status: 1 when fewer results came than wanted
 * @throws SluiceError BROKER_UNAVAILABLE, QUEUE_UNKNOWN
 */
export function runResults(options: ResultsOptions): Promise<number> {
  return interruptible(async (signal) => {
    const place = await openQueueStore(options.place, false);
    try {
      const producer = await place.client.producer("unused", options.queue ?? place.resultQueueName);
      try {
        return await take(producer, options, signal);
      } finally {
        await producer.close();
      }
    } finally {
      place.close();
    }
  });
}

async function take(producer: Producer, options: ResultsOptions, signal: AbortSignal): Promise<number> {
  const { count = Number.POSITIVE_INFINITY, payload } = options;
  let taken = 0;
  while (taken < count) {
    let result: ResultMessage | undefined;
    try {
      result = await nextResult(producer, options, signal, realClock);
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "RESULT_INVALID") throw error;
      tell(`removed a queue entry that is not a result: ${error.message}`);
      continue;
    }
    if (result === undefined) break;
    taken++;
    await print(payload ? Buffer.concat([result.payload, NEWLINE]) : `${encodeResult(result)}\n`);
  }
  if (taken >= count || options.count === undefined) return 0;
  tell(
    `${taken} of ${count} results arrived${options.timeout > 0 ? `; then no result arrived for ${options.timeout / 1000} s` : ""}`,
  );
  return 1;
}

const NEWLINE = Buffer.from("\n");

/**
 * The next result, or undefined when none came in time. A timeout of 0 takes a result that is there: while the queue is not
 * empty, the call tries again, because the first result also waits for the connection that fetches it.
 * @param timeout milliseconds
 */
export async function nextResult(
  producer: Pick<Producer, "getResult" | "resultQueueDepth">,
  { follow, timeout }: Pick<ResultsOptions, "follow" | "timeout">,
  signal: AbortSignal,
  clock: Clock,
): Promise<ResultMessage | undefined> {
  if (follow) return producer.getResult(signal);
  if (timeout > 0) return withinTime(producer, timeout, signal, clock);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if ((await producer.resultQueueDepth()) === 0) return undefined;
    // Another consumer may have taken the result meanwhile.
    const result = await withinTime(producer, ATTEMPT, signal, clock);
    if (result !== undefined) return result;
  }
  return undefined;
}

async function withinTime(
  producer: Pick<Producer, "getResult">,
  ms: number,
  signal: AbortSignal,
  clock: Clock,
): Promise<ResultMessage | undefined> {
  const waiting = new AbortController();
  const timer = clock.after(ms, () => waiting.abort(NONE));
  try {
    return await producer.getResult(AbortSignal.any([signal, waiting.signal]));
  } catch (error) {
    if (error === NONE) return undefined;
    throw error;
  } finally {
    timer.cancel();
  }
}
