import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Ticket } from "../flowcontrol/flow-control.ts";
import { noRoom, type Processed } from "./decide.ts";
import type { ExchangeServices } from "./exchange-services.ts";
import type { Prepared, Preparing } from "./prepare.ts";
import { OVER, type QueuedExchange, QueuePlace } from "./queue-place.ts";
import { RoomUse } from "./room-use.ts";
import type { Decision, SubsetHint } from "./wire.ts";

/** An exchange, as the waits of its request see it. */
export interface WaitingExchange {
  /** The request needs no decision any more: it has ended, or somebody has answered it. */
  readonly isOver: boolean;
  /** The request has left its queue. @param refusal undefined = it may go on */
  leftQueue(request: InferenceRequest, ticket: Ticket, refusal: Rejection | undefined): void;
  /** The waits are over. @param prepared undefined = no producer prepared @returns the decision on the present state */
  conclude(processed: Processed, prepared: Prepared | undefined): Decision;
  failed(error: unknown): Rejection;
  /** Ends the running exchange to make room for others. */
  revoke(): void;
}

/**
 * The waits of one request between its body and its decision, in this order: for room, if it is a background request; for its
 * turn in flow control; for producers that prepare. Where there is nothing to wait for, the decision comes at once.
 */
export class RequestWaits implements QueuedExchange {
  readonly #services: ExchangeServices;
  readonly #exchange: WaitingExchange;
  /** Undefined = the process has no background requests. */
  readonly room: RoomUse | undefined;
  /** The place in flow control, also after the request has left the queue. */
  place: QueuePlace | undefined;
  /** The preparation under way. */
  #preparing: Preparing | undefined;
  #subset: SubsetHint | undefined;
  #receivedAt = 0;

  constructor(services: ExchangeServices, exchange: WaitingExchange) {
    this.#services = services;
    this.#exchange = exchange;
    const room = services.spareRoom?.();
    this.room = room && new RoomUse(room);
  }

  /**
   * A background request goes on at once where there is room, else when there is. Throws what flow control throws.
   * @param bytes of the body
   * @param receivedAt monotonic milliseconds of the headers
   */
  begin(
    processed: Processed,
    bytes: number,
    subset: SubsetHint | undefined,
    receivedAt: number,
  ): Decision | Promise<Decision> {
    this.#subset = subset;
    this.#receivedAt = receivedAt;
    return this.room !== undefined && processed.caller?.background === true && this.#mayWait(processed)
      ? this.#waitForRoom(this.room, processed, bytes)
      : this.#queue(processed, bytes);
  }

  /** The request needs no decision any more. */
  cancel(): void {
    this.#preparing?.abort();
    this.place?.cancel();
    this.room?.cancel();
  }

  revoke(): void {
    this.#exchange.revoke();
  }

  leftQueue(processed: Processed, { ticket }: QueuePlace, refusal?: Rejection): Decision | Promise<Decision> {
    this.#exchange.leftQueue(processed.request, ticket, refusal);
    if (refusal === undefined) return this.#prepare(processed);
    return this.#exchange.isOver ? OVER : this.#refuse(processed, refusal);
  }

  #mayWait({ request, refusal }: Processed): boolean {
    return refusal === undefined && this.#services.decider.mayWait(this.#subset, request);
  }

  #waitForRoom(room: RoomUse, processed: Processed, bytes: number): Decision | Promise<Decision> {
    const { request } = processed;
    const candidates = () => this.#services.decider.candidates(this.#subset, request);
    const found = room.enter({ candidates, candidatesKey: request.targetModel, revoke: () => this.revoke() });
    if (found === undefined) return this.#queue(processed, bytes);
    return found.then((admitted) => {
      if (this.#exchange.isOver) return OVER;
      try {
        return admitted ? this.#queue(processed, bytes) : this.#refuse(processed, noRoom());
      } catch (error) {
        return this.#exchange.failed(error);
      }
    });
  }

  /** Goes through flow control where the configuration in force has it, and goes on at once where the pool has room. */
  #queue(processed: Processed, bytes: number): Decision | Promise<Decision> {
    const flowControl = this.#services.flowControl();
    if (flowControl === undefined || !this.#mayWait(processed)) return this.#prepare(processed);
    const place = QueuePlace.enter(flowControl, this, processed.request, bytes, this.#receivedAt);
    if (!(place instanceof QueuePlace)) return this.#refuse(processed, place);
    this.place = place;
    return place.waiting ? place.hold(processed) : this.#prepare(processed);
  }

  /** Waits for the producers that prepare, where there are any. */
  #prepare(processed: Processed): Decision | Promise<Decision> {
    const preparing =
      processed.refusal === undefined ? this.#services.decider.prepare(processed.request, this.#subset) : undefined;
    if (preparing === undefined) return this.#exchange.conclude(processed, undefined);
    this.#preparing = preparing;
    return preparing.prepared.then((prepared) => {
      this.#preparing = undefined;
      if (prepared === undefined || this.#exchange.isOver) return OVER;
      return this.#exchange.conclude(processed, prepared);
    });
  }

  #refuse(processed: Processed, refusal: Rejection): Decision {
    return this.#exchange.conclude({ ...processed, refusal }, undefined);
  }
}
