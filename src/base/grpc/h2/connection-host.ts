import type { Clock } from "../../clock/clock.ts";
import type { GrpcHandler } from "../transport.ts";
import type { Guest } from "./limits.ts";
import type { RequestHead } from "./request-head.ts";
import type { Turns } from "./turns.ts";

/** A connection, as its server sees it. */
export interface ServedConnection extends Guest {
  /** Its open calls. */
  readonly streams: { readonly size: number };
}

/** The services that a connection needs from its server. */
export interface ConnectionHost {
  readonly clock: Clock;
  /** The largest message accepted, bytes. */
  readonly maxMessageBytes: number;
  /** More calls than this at a time on one connection are refused. */
  readonly maxStreams: number;
  /** The number of connections that the server has: with many of them each reads little at a time. */
  readonly connections: number;
  /** Shares the event loop among the connections. */
  readonly turns: Turns;
  /** How to answer a request: with a handler, or with an HTTP status. */
  route(head: RequestHead): GrpcHandler | number;
  onHandlerError(error: unknown, path: string): void;
  /** The peer has sent its preface and SETTINGS: it speaks HTTP/2. */
  greeted(connection: ServedConnection): void;
  /** The first call begins, or the last one has ended. */
  busy(connection: ServedConnection, busy: boolean): void;
  /** Whether the calls of all connections leave room for one more call of this one. */
  hasRoom(connection: ServedConnection): boolean;
  /**
   * A call was refused because `maxStreams` are open on the connection, or too many on all; or the connection ends because of a
   * flood.
   */
  refuse(what: "streams" | "totalStreams" | "flood"): void;
  /** A call begins. */
  opened(connection: ServedConnection): void;
  /** A call has ended. @param reset its client has reset it */
  ended(connection: ServedConnection, reset: boolean): void;
  /** The connection is gone. */
  closed(connection: ServedConnection): void;
}
