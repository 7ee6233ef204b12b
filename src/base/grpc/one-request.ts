import { messageOf } from "../inference/errors.ts";
import { GRPC_STATUS } from "./status.ts";
import type { GrpcHandler, GrpcStream, GrpcStreamEvents } from "./transport.ts";

/** Answers one request. @returns what to do once the call is over; undefined = nothing */
export type Answer<T> = (request: T, stream: GrpcStream) => (() => void) | undefined;

/**
 * The handler of a method whose client sends one message. The server may answer with one message or with many. A message that
 * `read` cannot decode, and a call without a message, end with INTERNAL. Further messages are ignored.
 * @param read decodes the message; throws for bytes that are none
 */
export function oneRequest<T>(read: (bytes: Uint8Array) => T, answer: Answer<T>): GrpcHandler {
  return (stream) => new OneRequest(stream, read, answer);
}

class OneRequest<T> implements GrpcStreamEvents {
  readonly #stream: GrpcStream;
  readonly #read: (bytes: Uint8Array) => T;
  readonly #answer: Answer<T>;
  #asked = false;
  #undo: (() => void) | undefined;

  constructor(stream: GrpcStream, read: (bytes: Uint8Array) => T, answer: Answer<T>) {
    this.#stream = stream;
    this.#read = read;
    this.#answer = answer;
  }

  message(bytes: Uint8Array): void {
    if (this.#asked) return;
    this.#asked = true;
    let request: T;
    try {
      request = this.#read(bytes);
    } catch (error) {
      this.#stream.end(GRPC_STATUS.internal, messageOf(error));
      return;
    }
    this.#undo = this.#answer(request, this.#stream);
  }

  halfClosed(): void {
    if (!this.#asked) this.#stream.end(GRPC_STATUS.internal, "the call carries no request message");
  }

  closed(): void {
    this.#undo?.();
  }
}
