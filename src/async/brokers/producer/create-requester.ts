import { randomUUID } from "node:crypto";
import { realClock } from "../../../base/clock/real.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import type { ResultMessage } from "../messages/message.ts";
import { checkOptions, createProducer, type ProducerOptions } from "./create-producer.ts";
import { type Requester, ResultRequester } from "./result-requester.ts";

export type RequesterOptions = Omit<ProducerOptions, "resultQueueName"> & {
  /**
   * A queue that nobody else takes results from. Default: one with a name by chance, for this requester alone; what is left
   * in that when the process dies stays there. A name of its own per process, the same after a restart, avoids that.
   */
  readonly resultQueueName?: string;
  /** Requests that may wait at a time; default 10,000. */
  readonly maxWaiting?: number;
  /** Gets results that nobody waits for: of requests given up, or of an earlier life. */
  readonly onStray?: (result: ResultMessage) => void;
};

const OPTIONS = ["redis", "sqlite", "requestQueueName", "resultQueueName", "log", "maxWaiting", "onStray"] as const;
const MOST_WAITING = 10_000;

/** A requester, with a producer of its own. Options and errors as for `createProducer`. */
export async function createRequester(options: RequesterOptions): Promise<Requester> {
  const named = { ...options, resultQueueName: options?.resultQueueName ?? `replies-${randomUUID()}` };
  checkOptions(named as ProducerOptions, OPTIONS);
  const { maxWaiting = MOST_WAITING, onStray = () => {}, ...producerOptions } = named;
  const producer = await createProducer(producerOptions as ProducerOptions);
  return new ResultRequester(producer, { clock: realClock, log: options.log ?? silentLogger, maxWaiting, onStray });
}
