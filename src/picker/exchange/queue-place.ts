import type { RecordedWait } from "../../base/inference/decision-record.ts";
import type { ServedTokens } from "../../base/plugin/flow-kinds.ts";
import type { FlowControl, Ticket } from "../flowcontrol/flow-control.ts";

/** The place of one request in flow control, from its entry to its end. */
export class QueuePlace {
  readonly #flowControl: FlowControl;
  readonly ticket: Ticket;
  /** Whether the request had to wait. */
  readonly #waited: boolean;

  constructor(flowControl: FlowControl, ticket: Ticket) {
    this.#flowControl = flowControl;
    this.ticket = ticket;
    this.#waited = ticket.waiting;
  }

  /** How the request waited, once that is over; undefined = not at all. */
  get wait(): RecordedWait | undefined {
    return this.#waited ? this.ticket.wait : undefined;
  }

  /** The request needs no place any more. */
  cancel(): void {
    this.#flowControl.cancel(this.ticket);
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
