import net from "node:net";
import tls from "node:tls";
import type { Clock } from "../../clock/clock.ts";
import { oneLine } from "../../inference/errors.ts";
import { DEFAULT_MAX_MESSAGE_BYTES } from "../frames.ts";
import { listenOn } from "../listen.ts";
import { GRPC_STATUS } from "../status.ts";
import { contextOf, type TlsPair } from "../tls.ts";
import type { GrpcHandler, GrpcServer, GrpcServerOptions } from "../transport.ts";
import { Connection, type ConnectionHost } from "./connection.ts";
import type { RequestHead } from "./request-head.ts";

/** A connection with more calls in flight than this is out of its mind; memory would be the next limit. */
const MAX_STREAMS = 2 ** 20;

/** Milliseconds for the TLS handshake. */
const HANDSHAKE_TIMEOUT = 10_000;

/**
 * A gRPC server on our own HTTP/2: clear text with prior knowledge, or TLS with ALPN `h2`.
 * @param clock for the timeouts of handshakes and drains
 */
export function createH2Server(options: GrpcServerOptions, clock: Clock): GrpcServer {
  return new H2Server(options, clock);
}

class H2Server implements GrpcServer, ConnectionHost {
  readonly clock: Clock;
  readonly maxMessageBytes: number;
  readonly maxStreams: number = MAX_STREAMS;
  streams = 0;
  resets = 0;

  readonly #options: GrpcServerOptions;
  readonly #server: net.Server | tls.Server;
  readonly #connections = new Set<Connection>();
  #closing = false;

  constructor(options: GrpcServerOptions, clock: Clock) {
    this.#options = options;
    this.clock = clock;
    this.maxMessageBytes = options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES;
    this.#server =
      options.tls === undefined
        ? net.createServer({ noDelay: true, pauseOnConnect: true }, (socket) => this.#accept(socket, false))
        : tls.createServer(
            {
              ...contextOf(options.tls),
              ALPNProtocols: ["h2"],
              noDelay: true,
              handshakeTimeout: HANDSHAKE_TIMEOUT,
            },
            (socket) => {
              // A client that has negotiated nothing speaks something else.
              if (socket.alpnProtocol === "h2") this.#accept(socket, true);
              else socket.destroy();
            },
          );
  }

  listen(): Promise<{ address: string; port: number }> {
    return listenOn(this.#server, this.#options.host, this.#options.port);
  }

  drain(): Promise<void> {
    // The callback comes when the last connection is gone, also those that are still within their TLS handshake. A server
    // that was not listening reports an error there and has nothing to drain.
    return new Promise((resolve) => {
      this.#closing = true;
      this.#server.close(() => resolve());
      for (const connection of [...this.#connections]) connection.drain();
    });
  }

  close(): void {
    this.#closing = true;
    this.#server.close();
    for (const connection of [...this.#connections]) connection.destroy();
  }

  useTlsPair(pair: TlsPair): void {
    const { tls: settings } = this.#options;
    if (settings === undefined || !(this.#server instanceof tls.Server)) return;
    this.#server.setSecureContext(contextOf({ ...settings, ...pair }));
  }

  route(head: RequestHead): GrpcHandler | number {
    if (head.method !== "POST") return 405;
    if (!isGrpc(head.contentType)) return 415;
    const { encoding } = head;
    if (encoding !== "" && encoding !== "gzip" && encoding !== "identity") {
      return unimplemented(`grpc-encoding ${quoted(encoding)} is not supported`);
    }
    return this.#options.handlers.get(head.path) ?? unimplemented(`unknown method ${quoted(head.path)}`);
  }

  onHandlerError(error: unknown, path: string): void {
    this.#options.onHandlerError?.(error, path);
  }

  opened(): void {
    this.streams++;
  }

  ended(reset: boolean): void {
    this.streams--;
    if (reset) this.resets++;
  }

  closed(connection: Connection): void {
    this.#connections.delete(connection);
  }

  #accept(socket: net.Socket, encrypted: boolean): void {
    if (this.#closing) {
      socket.destroy();
      return;
    }
    this.#connections.add(new Connection(socket, encrypted, this));
  }
}

/** `application/grpc`, with a message format or parameters behind it; not `application/grpc-web`. */
function isGrpc(contentType: string): boolean {
  return contentType === "application/grpc" || /^application\/grpc([+;]|$)/i.test(contentType);
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
