import http2 from "node:http2";
import type { Clock } from "../../../src/base/clock/clock.ts";
import { DEFAULT_MAX_MESSAGE_BYTES } from "../../../src/base/grpc/frames.ts";
import { listenOn } from "../../../src/base/grpc/h2/server.ts";
import { GRPC_STATUS } from "../../../src/base/grpc/status.ts";
import { contextOf, type TlsPair } from "../../../src/base/grpc/tls.ts";
import type { GrpcHandler, GrpcServer, GrpcServerOptions } from "../../../src/base/grpc/transport.ts";
import { oneLine } from "../../../src/base/inference/errors.ts";
import { type CallContext, Http2Call, ignoreStreamError } from "./node-http2-call.ts";

/** Large enough never to be reached, and what the 32-bit option still holds. */
const NEVER = 2 ** 31 - 1;

/** Receive window of each stream: what may have to be kept for a handler that pauses (envoy-data-plane 1.8). */
const STREAM_WINDOW = 1024 * 1024;

/** Receive window of a connection, which up to 1,024 streams of one Envoy worker share. */
const CONNECTION_WINDOW = 16 * 1024 * 1024;

const HTTP2_OPTIONS = {
  // Envoy resets every stream. At the defaults (1,000 in a burst, 33 a second) the library answers ordinary traffic with
  // GOAWAY after about 1,100 exchanges; both must be raised (envoy-data-plane 1.8).
  streamResetBurst: NEVER,
  streamResetRate: NEVER,
  // In megabytes. Past the default of 10 new streams are refused; what a stream may hold is bounded by its window.
  maxSessionMemory: 1024 * 1024,
  noDelay: true,
  // maxConcurrentStreams stays unlimited: Envoy fails requests it has already assigned to a connection with a low limit.
  settings: { initialWindowSize: STREAM_WINDOW },
};

/**
 * A gRPC server on `node:http2`: clear text with prior knowledge, or TLS with ALPN `h2`.
 * @param clock only its `soon` is used
 */
export function createHttp2Server(options: GrpcServerOptions, clock: Clock): GrpcServer {
  return new Http2GrpcServer(options, clock);
}

class Http2GrpcServer implements GrpcServer, CallContext {
  readonly clock: Clock;
  readonly maxMessageBytes: number;
  streams = 0;
  resets = 0;

  readonly #options: GrpcServerOptions;
  readonly #server: http2.Http2Server | http2.Http2SecureServer;
  readonly #sessions = new Set<http2.ServerHttp2Session>();

  constructor(options: GrpcServerOptions, clock: Clock) {
    this.#options = options;
    this.clock = clock;
    this.maxMessageBytes = options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES;
    const { tls } = options;
    this.#server =
      tls === undefined
        ? http2.createServer(HTTP2_OPTIONS)
        : http2.createSecureServer({ ...HTTP2_OPTIONS, ...contextOf(tls), ALPNProtocols: ["h2"] });
    // A TLS client that negotiated nothing: by default its socket would be kept for ten seconds.
    this.#server.on("unknownProtocol", (socket) => socket.destroy());
    this.#server.on("session", (session) => this.#onSession(session));
    this.#server.on("stream", (stream: http2.ServerHttp2Stream, headers) => this.#onStream(stream, headers));
  }

  listen(): Promise<{ address: string; port: number }> {
    return listenOn(this.#server, this.#options.host, this.#options.port);
  }

  drain(): Promise<void> {
    // Closing the server closes its sessions gracefully: GOAWAY now, the connection when its last stream has ended. A
    // server that was not listening reports an error here and has nothing to drain.
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  close(): void {
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
  }

  useTlsPair(pair: TlsPair): void {
    const { tls } = this.#options;
    if (tls === undefined || !("setSecureContext" in this.#server)) return;
    this.#server.setSecureContext(contextOf({ ...tls, ...pair }));
  }

  onHandlerError(error: unknown, path: string): void {
    this.#options.onHandlerError?.(error, path);
  }

  onClosed(cut: boolean): void {
    this.streams--;
    if (cut) this.resets++;
  }

  #onSession(session: http2.ServerHttp2Session): void {
    session.setLocalWindowSize(CONNECTION_WINDOW);
    this.#sessions.add(session);
    session.on("close", () => this.#sessions.delete(session));
  }

  #onStream(stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders): void {
    if (headers[":method"] !== "POST") {
      this.#refuse(stream, 405);
      return;
    }
    if (!isGrpc(headers["content-type"])) {
      this.#refuse(stream, 415);
      return;
    }
    const path = headers[":path"] ?? "";
    const encoding = String(headers["grpc-encoding"] ?? "identity");
    const known = encoding === "gzip" ? "gzip" : "identity";
    this.streams++;
    const call = new Http2Call(stream, path, known, this);
    if (encoding !== known) call.start(unimplemented(`grpc-encoding ${quoted(encoding)} is not supported`));
    else call.start(this.#options.handlers.get(path) ?? unimplemented(`unknown method ${quoted(path)}`));
  }

  /** Answers what is not gRPC in plain HTTP. The stream closes in a later turn: a reset would overtake the headers. */
  #refuse(stream: http2.ServerHttp2Stream, status: number): void {
    stream.on("error", ignoreStreamError);
    stream.respond({ ":status": status }, { endStream: true });
    stream.resume();
    this.clock.soon(() => stream.close());
  }
}

/** `application/grpc`, with a message format or parameters behind it; not `application/grpc-web`. */
function isGrpc(contentType: string | undefined): boolean {
  if (contentType === "application/grpc") return true;
  return contentType !== undefined && /^application\/grpc([+;]|$)/i.test(contentType);
}

/** What a client sent, short enough for an error message. */
function quoted(text: string): string {
  return oneLine(text).slice(0, 200);
}

const NO_EVENTS = { message(): void {}, halfClosed(): void {}, closed(): void {} };

function unimplemented(message: string): GrpcHandler {
  return (stream) => {
    stream.end(GRPC_STATUS.unimplemented, message);
    return NO_EVENTS;
  };
}
