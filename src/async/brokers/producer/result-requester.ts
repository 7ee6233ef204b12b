import { randomUUID } from "node:crypto";
import { type Clock, delay, type Timer } from "../../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { ResultMessage } from "../messages/message.ts";
import type { Producer, SubmitRequest } from "../queue-client.ts";

export interface RequestOptions extends Omit<SubmitRequest, "id" | "payload" | "resultQueueName"> {
  /** Default: a random id. Unique among the waiting requests. */
  readonly id?: string;
  /** Gives the request up: it is cancelled if it was not sent yet. */
  readonly signal?: AbortSignal;
}

/** Sends requests through the queue and waits for the result of each. */
export interface Requester {
  /**
   * Submits a request and waits for its result, which comes at its deadline at the latest.
   * @param payload the body: an object, or JSON text that is sent exactly as it is
   * @returns the result, successful or not; `errorCode` is empty when the gateway has answered
   * @throws SluiceError REQUEST_INVALID, REQUESTER_FULL, BROKER_UNAVAILABLE (the request may still be submitted),
   * RESULT_MISSING when no result has come 30 s after the deadline; the reason of an aborted `signal`
   */
  request(payload: object | string, options: RequestOptions): Promise<ResultMessage>;
  /** Requests that wait for their result. */
  readonly waiting: number;
  /** Waiting requests reject with PRODUCER_CLOSED. */
  close(): Promise<void>;
}

export interface RequesterDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly maxWaiting: number;
  onStray(result: ResultMessage): void;
}

interface Waiter {
  resolve(result: ResultMessage): void;
  reject(error: unknown): void;
}

/** Milliseconds after its deadline at which a result is given up. */
const GRACE = 30_000;
/** Longest time of one timer, milliseconds: timers of Node.js end at 2^31. */
const LONGEST_TIMER = 86_400_000;
/** Milliseconds until the next attempt after results could not be read. */
const PAUSE = 1000;

/** Hands each result of its own queue to the request that waits for it. */
export class ResultRequester implements Requester {
  readonly #producer: Producer;
  readonly #deps: RequesterDeps;
  readonly #waiters = new Map<string, Waiter>();
  #reading: AbortController | undefined;
  #loop: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(producer: Producer, deps: RequesterDeps) {
    this.#producer = producer;
    this.#deps = deps;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  request(payload: object | string, options: RequestOptions): Promise<ResultMessage> {
    const { id = randomUUID(), signal, ...rest } = options;
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal(id, signal);
      if (refusal !== undefined) {
        reject(refusal);
        return;
      }
      let timer: Timer | undefined;
      const end = (): void => {
        timer?.cancel();
        signal?.removeEventListener("abort", onAbort);
        this.#waiters.delete(id);
        if (this.#waiters.size === 0) this.#reading?.abort();
      };
      const waiter: Waiter = {
        resolve(result) {
          end();
          resolve(result);
        },
        reject(error) {
          end();
          reject(error);
        },
      };
      const arm = (): void => {
        const left = rest.deadline * 1000 - this.#deps.clock.wall() + GRACE;
        if (left <= 0) waiter.reject(missing(id));
        else timer = this.#deps.clock.after(Math.min(left, LONGEST_TIMER), arm, true);
      };
      const onAbort = (): void => {
        waiter.reject(signal!.reason);
        // Best effort: a request that cannot be cancelled ends at its deadline.
        this.#producer.cancelRequests([id]).catch(() => {});
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.set(id, waiter);
      this.#producer.submitRequest({ ...rest, id, payload }).then(
        () => {
          if (this.#waiters.get(id) !== waiter) return;
          arm();
          this.#read();
        },
        (error) => waiter.reject(error),
      );
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const waiter of [...this.#waiters.values()]) waiter.reject(closed());
    this.#reading?.abort();
    await this.#loop;
    await this.#producer.close();
  }

  #refusal(id: string, signal: AbortSignal | undefined): unknown {
    if (this.#closed) return closed();
    if (signal?.aborted) return signal.reason;
    if (this.#waiters.has(id))
      return new SluiceError(
        "REQUEST_INVALID",
        `a request with the id ${JSON.stringify(id)} already waits for its result`,
      );
    const { maxWaiting } = this.#deps;
    if (this.#waiters.size >= maxWaiting)
      return new SluiceError("REQUESTER_FULL", `${maxWaiting} requests already wait, the most that maxWaiting allows`);
    return undefined;
  }

  /** Takes results while requests wait. */
  #read(): void {
    if (this.#reading !== undefined) return;
    this.#reading = new AbortController();
    this.#loop = this.#readWhileWaiting(this.#reading.signal).then(() => {
      this.#reading = undefined;
      // A request may have come while the last read ended.
      if (this.#waiters.size > 0) this.#read();
    });
  }

  async #readWhileWaiting(signal: AbortSignal): Promise<void> {
    while (this.#waiters.size > 0 && !signal.aborted) {
      let result: ResultMessage;
      try {
        result = await this.#producer.getResult(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#deps.log.warn({ error: messageOf(error) }, "no result could be read");
        const invalid = error instanceof SluiceError && error.code === "RESULT_INVALID";
        if (!invalid) await delay(this.#deps.clock, PAUSE, signal).catch(() => {});
        continue;
      }
      const waiter = this.#waiters.get(result.id);
      if (waiter === undefined) this.#deps.onStray(result);
      else waiter.resolve(result);
    }
  }
}

function closed(): SluiceError {
  return new SluiceError("PRODUCER_CLOSED", "the requester was closed");
}

function missing(id: string): SluiceError {
  return new SluiceError(
    "RESULT_MISSING",
    `request ${JSON.stringify(id)} has no result ${GRACE / 1000} s after its deadline: does a dispatcher serve its queue? Does result_queue_name send the results of that queue to another queue?`,
  );
}
