import type { ResultMessage } from "../brokers/messages/message.ts";
import type { SubmitRequest } from "../brokers/queue-client.ts";

/** The place of a body in the file of its input. */
export interface BodyPlace {
  readonly path: string;
  /** Offset of its first byte. */
  readonly start: number;
  /** Bytes. */
  readonly length: number;
}

/** A request of a line. A queue in this process keeps the place of the body, and reads the body when the line's turn comes. */
export interface LineRequest extends SubmitRequest {
  readonly payload: string;
  readonly place: BodyPlace;
}

/** Puts the requests of one batch on a queue. */
export interface LineProducer {
  /** @throws SluiceError BROKER_UNAVAILABLE: some of them may be there */
  submitRequests(requests: readonly LineRequest[]): Promise<void>;
  close(): Promise<void>;
}

/** The results of one batch, which stay until they are removed. */
export interface LineInbox {
  /** The oldest results, as texts where the queue keeps texts. @param count 1..1,000 */
  read(count: number): Promise<readonly (ResultMessage | string)[]>;
  /** Removes all results that the last `read` returned. Repeating it is harmless. */
  remove(): Promise<void>;
}

/** The queue of the requests of all batches, as those see it who work on a batch. All methods reject with BROKER_UNAVAILABLE. */
export interface BatchQueue {
  /** The caller ends it with its `close`. */
  producer(requestQueueName: string, resultQueueName: string): Promise<LineProducer>;
  inbox(resultQueueName: string): LineInbox;
  /** For each request id: whether it is queued or dispatched; its result is in the inbox before this returns false. */
  outstanding(ids: readonly string[]): Promise<readonly boolean[]>;
  /**
   * Takes requests out of the queue that no dispatcher has, without a result, and marks the others as cancelled.
   * @returns for each id whether it was taken out
   */
  withdraw(ids: readonly string[]): Promise<readonly boolean[]>;
  /** Forgets all requests and results of a result queue; what dispatchers have of it gets no result. */
  drop(resultQueueName: string): void;
  /** From this time on, dispatchers get no request of any batch. @param until monotonic milliseconds; Infinity = no end */
  allow(until: number): void;
}
