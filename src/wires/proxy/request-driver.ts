import type { BadRequest } from "./bad-request.ts";

/** Whoever answers a request whose head is in order: the driver of an exchange, or that of a service of the gateway itself. */
export interface RequestDriver {
  /** Whether the request has an exchange, now or before. */
  readonly opened: boolean;
  /** True after the end: the stream alone watches that the client takes the answer. */
  readonly done: boolean;
  /** Begins. @param expectsContinue the client sends its body only after a 100 */
  start(expectsContinue: boolean): void;
  /** A piece of the request body. */
  requestChunk(chunk: Buffer): void;
  /** The request body is complete. @param last its last piece, where `requestChunk` has not got it */
  requestEnd(last?: Buffer): void;
  /** The client left, or broke its connection. @param answer what it still gets, because it broke HTTP */
  clientGone(answer?: BadRequest): void;
  /** The client has read the written bytes. */
  clientDrained(): void;
  /** The deadline that was set on the client's stream has passed. */
  expired(): void;
}
