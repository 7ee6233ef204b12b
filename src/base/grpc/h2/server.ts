import net, { type AddressInfo, type Server } from "node:net";
import tls, { type SecureContextOptions } from "node:tls";
import type { Clock } from "../../clock/clock.ts";
import { hostPort } from "../../inference/endpoint.ts";
import { oneLine } from "../../inference/errors.ts";
import { listenFailed } from "../../inference/listen-address.ts";
import { DEFAULT_MAX_MESSAGE_BYTES } from "../frames.ts";
import { addressOf, certificateProblem } from "../refused-client.ts";
import { GRPC_STATUS } from "../status.ts";
import { contextOf, type TlsPair } from "../tls.ts";
import type { GrpcHandler, GrpcServer, GrpcServerOptions, GrpcTls } from "../transport.ts";
import { Connection } from "./connection.ts";
import type { ConnectionHost } from "./connection-host.ts";
import { HANDSHAKE_TIMEOUT, Handshakes } from "./handshakes.ts";
import { ConnectionLimits, StreamLimits } from "./limits.ts";
import type { RequestHead } from "./request-head.ts";
import { Turns } from "./turns.ts";

/** Calls at a time on one connection: twice as many as Envoy opens before it uses another connection (envoy-data-plane 1.8). */
const DEFAULT_MAX_STREAMS = 2048;

/** Connections at a time. Each thread of an Envoy has one, and one more for its health check. */
const DEFAULT_MAX_CONNECTIONS = 4096;

/** Calls at a time on all connections: the most of 32 connections. */
const DEFAULT_MAX_TOTAL_STREAMS = 65_536;

/** Options of a server on our own HTTP/2 besides those of the port. */
export interface H2ServerOptions extends GrpcServerOptions {
  /** PEM texts of the authorities whose clients may connect, over TLS only; absent = clients need no certificate. */
  readonly clientCa?: string | undefined;
  /** Calls at a time on one connection, advertised to clients; default 2,048. Less than 1,024 makes Envoy fail requests. */
  readonly maxStreams?: number | undefined;
  /** Calls at a time on all connections, at least 16; default 65,536. */
  readonly maxTotalStreams?: number | undefined;
  /** Connections at a time, at least 4; default 4,096. */
  readonly maxConnections?: number | undefined;
  /** Called with the reason when a client is refused because its certificate is missing or not accepted. */
  readonly onClientRefused?: ((problem: string, address: string) => void) | undefined;
}

/** A server on our own HTTP/2. */
export interface H2GrpcServer extends GrpcServer {
  /** For new connections these authorities, PEM, decide; existing connections stay. Only for a server that has `clientCa`. */
  useClientCa(clientCa: string): void;
  /** Asks all clients to connect again (GOAWAY): another server may answer at the same name. Calls in flight go on. */
  dismiss(): void;
  /** Connections at present. */
  readonly connections: number;
  readonly refused: Refused;
}

/** Numbers of refusals since the start of the server. */
interface Refused {
  /** Connections that were refused, or closed for others, because there were too many. */
  readonly connections: number;
  /** Calls on connections that had the most calls already. */
  readonly streams: number;
  /** Calls for which all connections together had no room. */
  readonly totalStreams: number;
  /** Clients whose certificate was missing or not accepted. */
  readonly certificate: number;
  /** Connections that were ended because they sent frames without a purpose. */
  readonly flood: number;
}

/**
 * A gRPC server on our own HTTP/2: clear text with prior knowledge, or TLS with ALPN `h2`.
 * @param clock for the timeouts of handshakes and drains, and for the turns that connections take
 */
export function createH2Server(options: H2ServerOptions, clock: Clock): H2GrpcServer {
  return new H2Server(options, clock);
}

class H2Server implements H2GrpcServer, ConnectionHost {
  readonly clock: Clock;
  readonly maxMessageBytes: number;
  readonly maxStreams: number;
  readonly turns: Turns;
  resets = 0;

  readonly #options: H2ServerOptions;
  /** Its own field, because code for the options of one server would be thrown away at the first call of another. */
  readonly #handlers: H2ServerOptions["handlers"];
  readonly #server: net.Server;
  readonly #limits: ConnectionLimits;
  readonly #streamLimits: StreamLimits;
  /** Speaks TLS on the connections that `#server` accepts. */
  #tls: tls.Server | undefined;
  #handshakes: Handshakes | undefined;
  /** Certificate and authorities in use. */
  #context: SecureContextOptions = {};
  readonly #connections = new Set<Connection>();
  readonly #refused = { streams: 0, totalStreams: 0, certificate: 0, flood: 0 };
  #closing = false;

  constructor(options: H2ServerOptions, clock: Clock) {
    this.#options = options;
    this.#handlers = options.handlers;
    this.clock = clock;
    this.maxMessageBytes = options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES;
    this.maxStreams = options.maxStreams ?? DEFAULT_MAX_STREAMS;
    this.turns = new Turns(clock);
    this.#limits = new ConnectionLimits({ all: options.maxConnections ?? DEFAULT_MAX_CONNECTIONS });
    this.#streamLimits = new StreamLimits(options.maxTotalStreams ?? DEFAULT_MAX_TOTAL_STREAMS);
    const { tls: settings } = options;
    const accept =
      settings === undefined ? (socket: net.Socket) => this.#accept(socket, false) : this.#secure(settings);
    this.#server = net.createServer({ noDelay: true, pauseOnConnect: true }, (socket) => {
      if (this.#closing) socket.destroy();
      else accept(socket);
    });
  }

  get streams(): number {
    return this.#streamLimits.size;
  }

  get connections(): number {
    return this.#limits.size;
  }

  get refused(): Refused {
    return { ...this.#refused, connections: this.#limits.turnedAway };
  }

  listen(): Promise<{ address: string; port: number }> {
    return listenOn(this.#server, this.#options.host, this.#options.port);
  }

  drain(): Promise<void> {
    // Node calls back when the last connection is gone. A server that was not listening reports an error there and has nothing
    // to drain.
    return new Promise((resolve) => {
      this.#closing = true;
      this.#server.close(() => resolve());
      this.#handshakes?.close();
      this.dismiss();
    });
  }

  dismiss(): void {
    for (const connection of [...this.#connections]) connection.drain();
  }

  close(): void {
    this.#closing = true;
    this.#server.close();
    this.#handshakes?.close();
    for (const connection of [...this.#connections]) connection.dropAll();
  }

  useTlsPair({ cert, key }: TlsPair): void {
    this.#change({ cert, key });
  }

  useClientCa(clientCa: string): void {
    if (this.#options.clientCa !== undefined) this.#change({ ca: clientCa });
  }

  route(head: RequestHead): GrpcHandler | number {
    if (head.method !== "POST") return 405;
    if (!isGrpc(head.contentType)) return 415;
    const { encoding } = head;
    if (encoding !== "" && encoding !== "gzip" && encoding !== "identity") {
      return unimplemented(`grpc-encoding ${quoted(encoding)} is not supported`);
    }
    return this.#handlers.get(head.path) ?? unimplemented(`unknown method ${quoted(head.path)}`);
  }

  onHandlerError(error: unknown, path: string): void {
    this.#options.onHandlerError?.(error, path);
  }

  greeted(connection: Connection): void {
    this.#limits.move(connection, "idle");
  }

  busy(connection: Connection, busy: boolean): void {
    this.#limits.move(connection, busy ? "busy" : "idle");
  }

  hasRoom({ address, streams }: Connection): boolean {
    return this.#streamLimits.hasRoom(address, streams.size);
  }

  refuse(what: "streams" | "totalStreams" | "flood"): void {
    this.#refused[what]++;
  }

  opened({ address }: Connection): void {
    this.#streamLimits.enter(address);
  }

  ended({ address }: Connection, reset: boolean): void {
    this.#streamLimits.leave(address);
    if (reset) this.resets++;
  }

  closed(connection: Connection): void {
    this.#connections.delete(connection);
    this.#limits.leave(connection);
  }

  #accept(socket: net.Socket, encrypted: boolean): void {
    const connection = new Connection(socket, encrypted, this);
    this.#connections.add(connection);
    if (!this.#limits.enter(connection)) connection.destroy();
  }

  #change(part: SecureContextOptions): void {
    if (this.#tls === undefined) return;
    const context = { ...this.#context, ...part };
    this.#tls.setSecureContext(context);
    this.#context = context;
  }

  /** @returns the function that takes an accepted connection */
  #secure(settings: GrpcTls): (socket: net.Socket) => void {
    const { clientCa, onClientRefused } = this.#options;
    this.#context = { ...contextOf(settings), ...(clientCa === undefined ? {} : { ca: clientCa }) };
    const server = tls.createServer({
      ...this.#context,
      requestCert: clientCa !== undefined,
      rejectUnauthorized: true,
      ALPNProtocols: ["h2"],
      handshakeTimeout: HANDSHAKE_TIMEOUT,
    });
    const handshakes = new Handshakes(server, this.#limits, this.clock);
    server.on("secureConnection", (socket) => {
      // A client that has negotiated no protocol does not speak HTTP/2.
      if (handshakes.finished(socket) && socket.alpnProtocol === "h2" && !this.#closing) this.#accept(socket, true);
      else socket.destroy();
    });
    server.on("tlsClientError", (error, socket) => {
      const problem = certificateProblem(error, socket);
      if (problem === undefined) return;
      this.#refused.certificate++;
      onClientRefused?.(problem, addressOf(socket));
    });
    this.#tls = server;
    this.#handshakes = handshakes;
    return (socket) => handshakes.accept(socket);
  }
}

/** `application/grpc`, with a message format or parameters behind it; not `application/grpc-web`. */
function isGrpc(contentType: string): boolean {
  return contentType === "application/grpc" || /^application\/grpc([+;]|$)/i.test(contentType);
}

/** A value from a client, short enough for an error message. */
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

/**
 * Binds `server` and returns its address.
 * @param port 0 = any free port
 * @throws SluiceError LISTEN_FAILED when the server cannot bind the address
 */
export function listenOn(server: Server, host: string, port: number): Promise<{ address: string; port: number }> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(listenFailed(hostPort(host, port), error));
    server.once("error", onError);
    server.listen(port, host, () => {
      server.removeListener("error", onError);
      const bound = server.address() as AddressInfo;
      resolve({ address: bound.address, port: bound.port });
    });
  });
}
