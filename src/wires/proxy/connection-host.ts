import type { ConnectionLimits, Guest, StreamLimits } from "../../base/grpc/h2/limits.ts";

/** The server, as its connections see it. */
export interface ConnectionHost {
  readonly limits: ConnectionLimits;
  /** Streams of HTTP/2 over all connections. */
  readonly streams: StreamLimits;
  /** The connection is gone. */
  closed(connection: Guest): void;
}
