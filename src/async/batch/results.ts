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
  /** Undefined = as many as come. */
  readonly count: number | undefined;
  /** Waits for more as long as it is let. */
  readonly follow: boolean;
  /** Milliseconds without a result after which it ends, when it does not follow; 0 = takes only what is there. */
  readonly timeout: number;
  /** Prints the payloads alone. */
  readonly payload: boolean;
}

/** None came in time. */
const NONE = Symbol("none");

/**
 * Takes results from a queue and prints them, one per line.
 * @returns the exit status: 1 when fewer came than were wanted
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
    let result: ResultMessage | typeof NONE;
    try {
      result = await next(producer, options, signal);
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "RESULT_INVALID") throw error;
      tell(`an entry was taken from the queue that is no result: ${error.message}`);
      continue;
    }
    if (result === NONE) break;
    taken++;
    await print(payload ? Buffer.concat([result.payload, NEWLINE]) : `${encodeResult(result)}\n`);
  }
  if (taken >= count || options.count === undefined) return 0;
  tell(
    `${taken} of ${count} results came${options.timeout > 0 ? ` before ${options.timeout / 1000} s went by without one` : ""}`,
  );
  return 1;
}

const NEWLINE = Buffer.from("\n");

async function next(
  producer: Producer,
  { follow, timeout }: ResultsOptions,
  signal: AbortSignal,
): Promise<ResultMessage | typeof NONE> {
  if (follow) return producer.getResult(signal);
  if (timeout === 0 && (await producer.resultQueueDepth()) === 0) return NONE;
  const waiting = new AbortController();
  // With what was there a moment ago, somebody else may have been faster.
  const timer = realClock.after(Math.max(timeout, 1000), () => waiting.abort(NONE));
  try {
    return await producer.getResult(AbortSignal.any([signal, waiting.signal]));
  } catch (error) {
    if (error === NONE) return NONE;
    throw error;
  } finally {
    timer.cancel();
  }
}
