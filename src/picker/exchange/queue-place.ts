import type { RecordedWait } from "../../base/inference/decision-record.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { ServedTokens } from "../../base/plugin/flow-kinds.ts";
import type { Waiter } from "../flowcontrol/flow.ts";
import type { FlowControl, Ticket } from "../flowcontrol/flow-control.ts";
import type { Processed } from "./decide.ts";
import type { Decision } from "./wire.ts";

/** The decision for an exchange that is over. */
export const OVER = new Rejection("internal", "the request ended before its decision");

/** An exchange, as its place in flow control sees it. */
export interface QueuedExchange {
  /** The request has left its queue. @param refusal undefined = it may go on @returns its decision */
  leftQueue(processed: Processed, place: QueuePlace, refusal?: Rejection): Decision | Promise<Decision>;
  /** Ends the running exchange to make room for others. */
  revoke(): void;
}

/** A request in a queue, and who gets its decision. */
interface Waiting {
  readonly processed: Processed;
  readonly resolve: (decision: Decision | Promise<Decision>) => void;
}

/** The place of one request in flow control, from its entry to its end. */
export class QueuePlace implements Waiter {
  readonly #flowControl: FlowControl;
  readonly #exchange: QueuedExchange;
  #ticket: Ticket | undefined;
  /** Whether the request had to wait. */
  #waited = false;
  /** Exists while the request waits in a queue. */
  #waiting: Waiting | undefined;

  private constructor(flowControl: FlowControl, exchange: QueuedExchange) {
    this.#flowControl = flowControl;
    this.#exchange = exchange;
  }

  /**
   * Enters flow control.
   * @param bytes of the body
   * @param receivedAt monotonic milliseconds
   * @returns a rejection where the queues are full
   */
  static enter(
    flowControl: FlowControl,
    exchange: QueuedExchange,
    request: InferenceRequest,
    bytes: number,
    receivedAt: number,
  ): QueuePlace | Rejection {
    const place = new QueuePlace(flowControl, exchange);
    const ticket = flowControl.enter(request, bytes, receivedAt, place);
    if (ticket instanceof Rejection) return ticket;
    place.#ticket = ticket;
    place.#waited = ticket.waiting;
    return place;
  }

  get ticket(): Ticket {
    return this.#ticket!;
  }

  /** The request waits for room in the pool. */
  get waiting(): boolean {
    return this.ticket.waiting;
  }

  /** How the request waited, once that is over; undefined = not at all. */
  get wait(): RecordedWait | undefined {
    return this.#waited ? this.ticket.wait : undefined;
  }

  /** The request stays in its queue. @returns its decision, which comes once it has left */
  hold(processed: Processed): Promise<Decision> {
    return new Promise((resolve) => {
      this.#waiting = { processed, resolve };
    });
  }

  dispatched(): void {
    this.#leave(undefined);
  }

  evicted(rejection: Rejection): void {
    this.#leave(rejection);
  }

  revoke(): void {
    this.#exchange.revoke();
  }

  /** The request needs no place in the queue any more. No effect unless it waits there. */
  cancel(): void {
    if (this.#waiting !== undefined) this.#flowControl.cancel(this.ticket);
  }

  /** The request counts at an endpoint now, or never will. */
  decided(): void {
    this.#flowControl.decided(this.ticket);
  }

  /** The answer begins, which may make room. */
  answered(): void {
    this.#flowControl.changed();
  }

  ended(usage: ServedTokens | undefined): void {
    this.#flowControl.ended(this.ticket, usage);
  }

  #leave(refusal: Rejection | undefined): void {
    const { processed, resolve } = this.#waiting!;
    this.#waiting = undefined;
    resolve(this.#exchange.leftQueue(processed, this, refusal));
  }
}
