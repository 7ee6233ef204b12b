/**
 * One gRPC call as the server sees it. The transport inflates received messages and removes their frames. Messages are always
 * sent uncompressed. All output of one turn of the event loop leaves together at its end.
 *
 * After `end`, or once the peer is gone, every method does nothing and `send` returns true.
 */
export interface GrpcStream {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The compression of the client's messages (`grpc-encoding`). */
  readonly encoding: "identity" | "gzip";
  /**
   * Sends one message. The bytes belong to the transport afterwards.
   * @returns false when further messages should wait for `whenWritable`: the peer reads too slowly
   */
  send(message: Uint8Array): boolean;
  /**
   * Sends `bytes[from, to)`, by default all bytes. They already contain their prefixes: one message, several, or the pieces of one
   * in order within one turn. The range belongs to the transport afterwards. It is not copied unless it is small.
   * @returns as `send`
   */
  sendFramed(bytes: Uint8Array, from?: number, to?: number): boolean;
  /** Calls back once, in a later turn, when the output has drained. At most one callback waits; a later one replaces it. */
  whenWritable(callback: () => void): void;
  /**
   * Stops the delivery of messages. The peer may send until this stream's flow-control window is full; other streams are not
   * affected. A reset is still reported.
   */
  pause(): void;
  /**
   * Gives a message back, within its `message` event: nobody keeps a view of its bytes, so that the next message of any call may
   * take their place.
   */
  recycle(message: Uint8Array): void;
  /** Undoes `pause`. Messages arrive in a later turn, or at the end of the `message` call that resumed. */
  resume(): void;
  /**
   * Ends the call after all output so far: trailers, or a trailers-only answer when nothing was sent.
   * @param status a gRPC status code, 0 to 16
   * @param message any text, bounded by the caller
   */
  end(status: number, message?: string): void;
}

/** The events of a call for its handler, in this order: messages, at most one half-close, exactly one `closed`. */
export interface GrpcStreamEvents {
  /** One message. The bytes may be a view of a larger buffer: see `detach` before keeping them for long. */
  message(bytes: Uint8Array): void;
  /**
   * Offers a message of at most 8 KiB where it lies, in memory that is valid during the call only. Optional: a handler that passes
   * bytes on saves a copy of each message. `sendFramed` may get a part of them.
   * @returns false = not taken, and nothing has happened: `message` follows, with bytes of its own
   */
  passing?(bytes: Buffer, from: number, to: number): boolean;
  /** The client has ended its side. */
  halfClosed(): void;
  /**
   * The last event, exactly once. "ended": the handler called `end` and the peer's transport has taken the answer. "cancelled":
   * a reset with any code, a lost connection, a server that closes. It is never an error: Envoy ends every exchange with a
   * reset (envoy-data-plane 1.5).
   * @param status the gRPC status of the answer, which the handler or the transport set; CANCELLED when there was none
   */
  closed(cause: "ended" | "cancelled", status?: number): void;
}

/** Accepts a call. An error that it throws, here or in an event, ends the call with INTERNAL and affects no other call. */
export type GrpcHandler = (stream: GrpcStream) => GrpcStreamEvents;

/** Settings of TLS. Connections without ALPN `h2` are refused. */
export interface GrpcTls {
  /** PEM texts. */
  readonly cert: string;
  readonly key: string;
  /** Default TLSv1.2, the lowest version that HTTP/2 permits (RFC 9113, section 9.2). */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3" | undefined;
  /** OpenSSL's names, colons between them, those of TLS 1.3 included; absent = the runtime's own choice. */
  readonly ciphers?: string | undefined;
}

/** A listening gRPC server. */
export interface GrpcServer {
  /** @throws SluiceError LISTEN_FAILED when the server cannot bind the address */
  listen(): Promise<{ readonly address: string; readonly port: number }>;
  /** Takes no new connections and no new calls (GOAWAY); resolves when the calls in flight have ended. */
  drain(): Promise<void>;
  /** Drops every connection at once. */
  close(): void;
  /**
   * New connections get another certificate; existing ones stay as they are (epp-protocol 15.2). Without TLS it does nothing.
   * @throws the TLS library's error for a pair that it cannot use; the old pair then stays
   */
  useTlsPair(pair: { readonly cert: string; readonly key: string }): void;
  /** Calls in flight. */
  readonly streams: number;
  /** Calls that their clients have reset so far: the normal end of an exchange with Envoy. */
  readonly resets: number;
}

/** Settings of every implementation of the port. */
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
  /** Gets the error that a handler threw. */
  readonly onHandlerError?: ((error: unknown, path: string) => void) | undefined;
}
