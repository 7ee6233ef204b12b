import type { QueueBacklog } from "./broker.ts";
import type { ResultMessage } from "./messages/message.ts";

/** A request as an application submits it (async-processor 4.1, 4.6). */
export interface SubmitRequest {
  readonly id: string;
  /** Unix seconds; must be in the future. */
  readonly deadline: number;
  /** The body: an object, or JSON text that is sent exactly as it is. */
  readonly payload: object | string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly endpoint?: string;
  /** Instead of the producer's own. */
  readonly requestQueueName?: string;
  readonly resultQueueName?: string;
  /** Labels for gates and merge policies (`tier`, `classification`). */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Puts requests on a queue and takes results from another. */
export interface Producer {
  /** Validates and queues one. @throws SluiceError REQUEST_INVALID, BROKER_UNAVAILABLE */
  submitRequest(request: SubmitRequest): Promise<void>;
  /** As `submitRequest` for many in few round trips; all are validated before the first is queued. */
  submitRequests(requests: readonly SubmitRequest[]): Promise<void>;
  /** Marks submissions to be cancelled before they are dispatched; unknown ids are nothing. */
  cancelRequests(ids: readonly string[]): Promise<void>;
  /** The next result; waits for one until `signal` is aborted. @throws SluiceError RESULT_INVALID for an entry that is no result (it is consumed) */
  getResult(signal?: AbortSignal): Promise<ResultMessage>;
  requestQueueDepth(): Promise<number>;
  resultQueueDepth(): Promise<number>;
  clearRequestQueue(): Promise<void>;
  clearResultQueue(): Promise<void>;
  close(): Promise<void>;
}

/** An entry that nobody could read or that was given up. */
export interface DeadLetter {
  /** As it stood in the queue. */
  readonly entry: string;
  readonly reason: string;
  /** Unix milliseconds. */
  readonly at: number;
}

/** A queued entry, for people. */
export interface QueueEntry {
  readonly entry: string;
  readonly score: number;
}

/** Looks into a broker's queues and mends them: what `sluice queue` does. */
export interface QueueInspector {
  /** First entries in dispatch order, nothing is claimed. @param count 1..1,000 */
  peek(queueName: string, count: number): Promise<readonly QueueEntry[]>;
  dead(queueName: string, count: number): Promise<readonly DeadLetter[]>;
  /** Puts dead letters back into the queue, at most `count` of the oldest. @returns how many */
  requeueDead(queueName: string, count: number): Promise<number>;
}

/**
 * Results of one queue that are read before they are removed: whoever dies in between finds them again. For queues that only
 * one consumer takes from.
 */
export interface ResultInbox {
  /** The oldest, which stay; fewer than `count` where they are large. @param count 1..1,000 */
  read(count: number): Promise<readonly string[]>;
  /** Removes what `read` returned last, all of it. Repeating it is harmless. */
  remove(): Promise<void>;
}

/** The queues of one server or file, as people and batches see them. All methods reject with SluiceError as a `Broker` does. */
export interface QueueClient {
  /** The server or file, for messages and to tell it from others. */
  readonly place: string;
  /** Are retries counted for all queues together? */
  readonly sharedRetries: boolean;
  readonly inspector: QueueInspector;
  /** Ended by its own `close`. */
  producer(requestQueueName: string, resultQueueName: string): Promise<Producer>;
  inbox(resultQueueName: string): ResultInbox;
  /**
   * Per request id: is a submission of it queued, claimed or parked? What has ended has its result in the result queue
   * before this says no. On Redis it also says no once the deadline has passed (async-processor 5.2.2).
   */
  outstanding(ids: readonly string[]): Promise<readonly boolean[]>;
  backlog(queueName: string): Promise<QueueBacklog>;
  resultDepth(resultQueueName: string): Promise<number>;
  /** Queues that something was put into, and queues that hold results; undefined where that cannot be said. */
  names(): Promise<{ readonly queues: readonly string[]; readonly results: readonly string[] } | undefined>;
  close(): void;
}

/** Bytes of results after which one `read` stops: a slow network must bring them before its server counts as gone. */
export const INBOX_BYTES = 4 * 1024 * 1024;
