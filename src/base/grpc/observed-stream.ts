import type { Clock } from "../clock/clock.ts";
import { GRPC_STATUS, statusName } from "./status.ts";
import type { GrpcHandler, GrpcStreamEvents } from "./transport.ts";

/** Observes the beginning and the end of every call. */
export interface StreamObserver {
  opened(): void;
  /**
   * @param code name of the gRPC status; Canceled when the peer was gone before the answer was complete
   * @param ms how long the call was open
   */
  closed(code: string, ms: number): void;
}

/** `handler` with an observer. */
export function observeStreams(handler: GrpcHandler, observer: StreamObserver, clock: Clock): GrpcHandler {
  return (stream) => {
    const start = clock.now();
    observer.opened();
    try {
      return new ObservedCall(handler(stream), observer, clock, start);
    } catch (error) {
      // The transport ends such a call and reports it to the peer alone.
      observer.closed(statusName(GRPC_STATUS.internal), clock.now() - start);
      throw error;
    }
  };
}

class ObservedCall implements GrpcStreamEvents {
  readonly #events: GrpcStreamEvents;
  readonly #observer: StreamObserver;
  readonly #clock: Clock;
  readonly #start: number;

  constructor(events: GrpcStreamEvents, observer: StreamObserver, clock: Clock, start: number) {
    this.#events = events;
    this.#observer = observer;
    this.#clock = clock;
    this.#start = start;
  }

  message(bytes: Uint8Array): void {
    this.#events.message(bytes);
  }

  passing(bytes: Buffer, from: number, to: number): boolean {
    return this.#events.passing?.(bytes, from, to) ?? false;
  }

  halfClosed(): void {
    this.#events.halfClosed();
  }

  closed(cause: "ended" | "cancelled", status: number = GRPC_STATUS.cancelled): void {
    this.#observer.closed(statusName(status), this.#clock.now() - this.#start);
    this.#events.closed(cause, status);
  }
}
