import type { RecordedWait } from "../../base/inference/decision-record.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { ServedTokens } from "../../base/plugin/flow-kinds.ts";
import type { FlowControl, Ticket } from "../flowcontrol/flow-control.ts";
import type { Processed } from "./decide.ts";
import type { Decision } from "./wire.ts";

/** The decision for an exchange that is over. */
export const OVER = new Rejection("internal", "the request ended before its decision");

/** A request in a queue, and who gets its decision. */
export interface Waiting {
  readonly processed: Processed;
  readonly resolve: (decision: Decision | Promise<Decision>) => void;
}

/** The place of one request in flow control, from its entry to its end. */
export class QueuePlace {
  readonly #flowControl: FlowControl;
  readonly ticket: Ticket;
  /** Whether the request had to wait. */
  readonly #waited: boolean;
  /** Exists while the request waits in a queue. */
  #waiting: Waiting | undefined;

  constructor(flowControl: FlowControl, ticket: Ticket) {
    this.#flowControl = flowControl;
    this.ticket = ticket;
    this.#waited = ticket.waiting;
  }

  /** How the request waited, once that is over; undefined = not at all. */
  get wait(): RecordedWait | undefined {
    return this.#waited ? this.ticket.wait : undefined;
  }

  /** The request stays in its queue. @returns its decision, which comes after `leave` */
  hold(processed: Processed): Promise<Decision> {
    return new Promise((resolve) => {
      this.#waiting = { processed, resolve };
    });
  }

  /** The request has left the queue, in which it was. */
  leave(): Waiting {
    const waiting = this.#waiting!;
    this.#waiting = undefined;
    return waiting;
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
}
