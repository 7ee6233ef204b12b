import type { GrpcStream } from "../../base/grpc/transport.ts";

/** Why the reading of a stream is stopped; each reason is one bit. */
export const HOLD = {
  /** The process holds as many bytes of bodies as it may. */
  budget: 1,
  /** The peer does not take what was sent. */
  backPressure: 2,
} as const;

type Reason = (typeof HOLD)[keyof typeof HOLD];

/** Stops the reading of a stream while any reason holds: one reason that ends does not end another. */
export class ReadGate {
  readonly #stream: GrpcStream;
  #reasons = 0;

  constructor(stream: GrpcStream) {
    this.#stream = stream;
  }

  hold(reason: Reason): void {
    if (this.#reasons === 0) this.#stream.pause();
    this.#reasons |= reason;
  }

  /** Without effect when the reason does not hold. */
  release(reason: Reason): void {
    if ((this.#reasons & reason) === 0) return;
    this.#reasons &= ~reason;
    if (this.#reasons === 0) this.#stream.resume();
  }
}
