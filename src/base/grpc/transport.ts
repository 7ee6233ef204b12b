/**
 * One gRPC call as the server sees it. Compression and framing of received messages are done by the transport; messages
 * are always sent uncompressed. Nothing sent within one turn of the event loop leaves earlier than its end, together.
 *
 * After `end`, or once the peer is gone, every method does nothing and `send` returns true.
 */
export interface GrpcStream {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** What the client compresses with (`grpc-encoding`). */
  readonly encoding: "identity" | "gzip";
  /**
   * Sends one message. The bytes belong to the transport from here on.
   * @returns false when more should wait for `whenWritable`: the peer reads too slowly
   */
  send(message: Uint8Array): boolean;
  /**
   * Sends bytes that carry their prefixes already: one message, several, or the pieces of one in order within one turn.
   * They are not copied unless they are small.
   * @returns as `send`
   */
  sendFramed(bytes: Uint8Array): boolean;
  /** Calls back once, in a later turn, when what was sent has drained. At most one callback waits; a later one replaces it. */
  whenWritable(callback: () => void): void;
  /**
   * Stops the delivery of messages; the peer may go on until this stream's flow-control window is full, other streams are
   * not affected. A reset is reported nevertheless.
   */
  pause(): void;
  /** Undoes `pause`; messages come in a later turn, or at the end of the `message` call it is made from. */
  resume(): void;
  /**
   * Ends the call after everything sent so far: trailers, or a trailers-only answer when nothing was sent.
   * @param status a gRPC status code, 0 to 16
   * @param message any text, bounded by the caller
   */
  end(status: number, message?: string): void;
}

/** What a call tells its handler, in this order: messages, at most one half-close, exactly one `closed`. */
export interface GrpcStreamEvents {
  /** One message. The bytes may be a view of a larger buffer: see `detach` before keeping them for long. */
  message(bytes: Uint8Array): void;
  /** The client has sent everything. */
  halfClosed(): void;
  /**
   * The last event, exactly once. "ended": `end` was called and the answer was taken over by the peer's transport.
   * "cancelled": a reset with whatever code, a lost connection, a server that closes. Never an error: Envoy ends every
   * exchange with a reset (envoy-data-plane 1.5).
   * @param status the gRPC status of the answer, whoever ended the call; CANCELLED when there was none
   */
  closed(cause: "ended" | "cancelled", status?: number): void;
}

/** Accepts a call. Throwing, here or in an event, ends the call with INTERNAL and leaves the others alone. */
export type GrpcHandler = (stream: GrpcStream) => GrpcStreamEvents;

/** How TLS is spoken. Connections without ALPN `h2` are refused. */
export interface GrpcTls {
  /** PEM texts. */
  readonly cert: string;
  readonly key: string;
  /** Default TLSv1.2, the lowest that HTTP/2 may be spoken over (RFC 9113, section 9.2). */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3" | undefined;
  /** OpenSSL's names, colons between them, those of TLS 1.3 included; absent = the runtime's own choice. */
  readonly ciphers?: string | undefined;
}

/** A listening gRPC server. */
export interface GrpcServer {
  /** @throws SluiceError LISTEN_FAILED when the address cannot be had */
  listen(): Promise<{ readonly address: string; readonly port: number }>;
  /** Takes no new connections and no new calls (GOAWAY); resolves when the calls in flight have ended. */
  drain(): Promise<void>;
  /** Drops every connection at once. */
  close(): void;
  /**
   * New connections are shown another certificate; those that exist stay as they are (epp-protocol 15.2).
   * @throws whatever the TLS library says of a pair it cannot use; the old one stays. Without TLS it does nothing.
   */
  useTlsPair(pair: { readonly cert: string; readonly key: string }): void;
  /** Calls in flight. */
  readonly streams: number;
  /** Calls that their clients have reset so far, the normal end of an exchange with Envoy. */
  readonly resets: number;
}

/** What every implementation of the port is created with. */
export interface GrpcServerOptions {
  /** Address to bind, `0.0.0.0` or `::` for all. */
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** By path (`/package.Service/Method`); any other path answers UNIMPLEMENTED. */
  readonly handlers: ReadonlyMap<string, GrpcHandler>;
  /** Absent = clear text with prior knowledge (h2c). */
  readonly tls?: GrpcTls | undefined;
  /** The largest message accepted in bytes, both as received and inflated; default 64 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Told what a handler threw. */
  readonly onHandlerError?: ((error: unknown, path: string) => void) | undefined;
}
