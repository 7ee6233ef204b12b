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
  /** Replaces the producer's own queue. */
  readonly requestQueueName?: string;
  readonly resultQueueName?: string;
  /** Labels for gates and merge policies (`tier`, `classification`). */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Puts requests on a queue and takes results from another. */
export interface Producer {
  /** Validates and queues one request. @throws SluiceError REQUEST_INVALID, BROKER_UNAVAILABLE */
  submitRequest(request: SubmitRequest): Promise<void>;
  /** As `submitRequest`, for many requests in few round trips; all are validated before the first is queued. */
  submitRequests(requests: readonly SubmitRequest[]): Promise<void>;
  /** Marks submissions to be cancelled before they are dispatched; unknown ids are ignored. */
  cancelRequests(ids: readonly string[]): Promise<void>;
  /**
   * The next result; waits for one until `signal` is aborted.
   * @throws SluiceError RESULT_INVALID for an entry that is no result (the entry is consumed)
   */
  getResult(signal?: AbortSignal): Promise<ResultMessage>;
  requestQueueDepth(): Promise<number>;
  resultQueueDepth(): Promise<number>;
  clearRequestQueue(): Promise<void>;
  clearResultQueue(): Promise<void>;
  close(): Promise<void>;
}

/** An entry that could not be read, or that was given up. */
export interface DeadLetter {
  /** The entry as it was in the queue. */
  readonly entry: string;
  readonly reason: string;
  /** Unix milliseconds. */
  readonly at: number;
}

/** A queued entry, for display. */
export interface QueueEntry {
  readonly entry: string;
  readonly score: number;
}

/** Reads and mends a broker's queues: the work of `sluice queue`. */
export interface QueueInspector {
  /** First entries in dispatch order; none is claimed. @param count 1..1,000 */
  peek(queueName: string, count: number): Promise<readonly QueueEntry[]>;
  dead(queueName: string, count: number): Promise<readonly DeadLetter[]>;
  /** Puts the oldest dead letters back into the queue, at most `count`. @returns how many */
  requeueDead(queueName: string, count: number): Promise<number>;
}

/** What dispatchers have of a queue. */
export interface HeldMessages {
  readonly claimed: number;
  /** When the last lease ends, milliseconds of the store's clock; -Infinity = there is no lease. */
  readonly lastLease: number;
  /** Milliseconds from now until then; 0 = every lease has run out. */
  readonly leaseLeft: number;
}

/** Hands messages back to their queues in place of a dispatcher that has ended: the work of `sluice queue release`. */
export interface QueueReleaser {
  /** Dispatchers with a connection that serves the queue; undefined = the store cannot tell. */
  dispatchers(queueName: string): Promise<number | undefined>;
  held(queueName: string): Promise<HeldMessages>;
  /**
   * Puts claimed messages back, each as it was and at its old place. A dispatcher that still has one drops its result.
   * @param all true: also messages whose lease still runs @returns how many
   */
  release(queueName: string, all: boolean): Promise<number>;
  /** Puts all retries of the queue back before they are due. @returns how many */
  unpark(queueName: string): Promise<number>;
}

/**
 * Results of one queue that are read before they are removed: a consumer that dies in between finds them again. For queues with
 * only one consumer.
 */
export interface ResultInbox {
  /** The oldest results, which stay; fewer than `count` where they are large. @param count 1..1,000 */
  read(count: number): Promise<readonly string[]>;
  /** Removes all results that the last `read` returned. Repeating it is harmless. */
  remove(): Promise<void>;
}

/** The queues of one server or file, for users and batches. All methods reject with SluiceError as a `Broker` does. */
export interface QueueClient {
  /** The server or file, for messages and to tell it from others. */
  readonly place: string;
  /** True: retries are counted for all queues together. */
  readonly sharedRetries: boolean;
  readonly inspector: QueueInspector;
  readonly releaser: QueueReleaser;
  /** The caller ends it with its `close`. */
  producer(requestQueueName: string, resultQueueName: string): Promise<Producer>;
  inbox(resultQueueName: string): ResultInbox;
  /**
   * For each request id: whether a submission of it is queued, claimed or parked. The result of an ended request is in the
   * result queue before this returns false. On Redis it also returns false once the deadline has passed
   * (async-processor 5.2.2).
   */
  outstanding(ids: readonly string[]): Promise<readonly boolean[]>;
  backlog(queueName: string): Promise<QueueBacklog>;
  resultDepth(resultQueueName: string): Promise<number>;
  /** Queues that got requests, and queues that hold results; undefined where the store does not know. */
  names(): Promise<{ readonly queues: readonly string[]; readonly results: readonly string[] } | undefined>;
  close(): void;
}

/** Bytes of results after which one `read` stops: a slow network must carry them before its server counts as gone. */
export const INBOX_BYTES = 4 * 1024 * 1024;
