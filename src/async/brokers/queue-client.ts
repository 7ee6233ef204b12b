import type { Backlog } from "./broker.ts";
import type { Producer, QueueInspector } from "./producer.ts";

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
  backlog(queueName: string): Promise<Backlog>;
  resultDepth(resultQueueName: string): Promise<number>;
  /** Queues that something was put into, and queues that hold results; undefined where that cannot be said. */
  names(): Promise<{ readonly queues: readonly string[]; readonly results: readonly string[] } | undefined>;
  close(): void;
}

/** Bytes of results after which one `read` stops: a slow network must bring them before its server counts as gone. */
export const INBOX_BYTES = 4 * 1024 * 1024;
