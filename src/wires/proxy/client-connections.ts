import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock } from "../../base/clock/clock.ts";
import { ConnectionLimits, type Guest, StreamLimits } from "../../base/grpc/h2/limits.ts";
import { UPGRADE_REFUSED } from "./bad-request.ts";
import { ClientConnection } from "./client-connection.ts";
import type { Expectation } from "./client-stream.ts";
import type { ConnectionHost } from "./connection-host.ts";
import { Http2Connection } from "./http2-connection.ts";
import { Listener, type ListenerHost, type ListenerOptions } from "./listener.ts";
import { requestIdOf } from "./local-answer.ts";
import type { ProxyOptions } from "./options.ts";
import type { ProxyServices } from "./services.ts";

/** The property of a socket that holds its connection. */
const CONNECTION = Symbol("client connection");
type Tagged = Socket & { [CONNECTION]?: ClientConnection };

/** All client connections of a proxy, of both versions of HTTP and on all of its listeners. */
export class ClientConnections implements ConnectionHost, ListenerHost {
  readonly limits: ConnectionLimits;
  readonly streams: StreamLimits;
  readonly listeners: Listener[] = [];
  readonly #services: ProxyServices;
  readonly #options: Pick<ProxyOptions, "onClientRefused">;
  readonly #connections = new Set<ClientConnection | Http2Connection>();
  /** Parses HTTP/1.1 on the connections of all listeners, and listens on no address itself. */
  readonly #parser: Server;
  /** No further connection comes. */
  #closing = false;
  /** Connections that were turned away and are counted. */
  #told = 0;

  constructor(services: ProxyServices, options: Pick<ProxyOptions, "onClientRefused">) {
    const { connections, connectionsPerAddress } = services.limits;
    this.#services = services;
    this.#options = options;
    // New connections may have all places: a new one gives way first.
    this.limits = new ConnectionLimits({ all: connections, fresh: connections, ofAddress: connectionsPerAddress });
    // As many as connections of HTTP/1.1 could have.
    this.streams = new StreamLimits(connections);
    this.#parser = this.#createParser();
  }

  get clock(): Clock {
    return this.#services.clock;
  }

  get draining(): boolean {
    return this.#closing;
  }

  /** Connections that are open now, with those whose handshake is not complete. */
  get size(): number {
    return this.limits.size;
  }

  /** @throws SluiceError LISTEN_FAILED */
  async listen(addresses: readonly ListenerOptions[]): Promise<void> {
    for (const address of addresses) {
      const listener = new Listener(address, this);
      await listener.listen();
      this.listeners.push(listener);
    }
  }

  /**
   * Asks the clients of HTTP/2 to go on over connections of their own choice; later ones are asked after their answers. A
   * connection of HTTP/1.1 ends with its next answer.
   */
  closeAfterAnswers(): void {
    for (const connection of [...this.#connections]) if (connection instanceof Http2Connection) connection.drain();
  }

  /** Accepts no further connection, and lets running requests end. */
  drain(): void {
    void this.close();
    for (const connection of [...this.#connections]) connection.drain();
  }

  /** Cuts every connection. */
  destroy(): void {
    void this.close();
    for (const connection of [...this.#connections]) connection.destroy();
  }

  /** Accepts no further connection. Resolves when the last one has ended. */
  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.listeners.map((listener) => listener.close()));
    this.#parser.close();
  }

  http1(socket: Tagged, secure: boolean): void {
    const connection = new ClientConnection(this.#services, this, socket, clientAddress(socket), secure);
    if (!this.#enter(connection)) {
      socket.destroy();
      return;
    }
    socket[CONNECTION] = connection;
    this.#parser.emit("connection", socket);
  }

  http2(socket: TLSSocket): void {
    const connection = new Http2Connection(this.#services, this, socket, clientAddress(socket));
    if (!this.#enter(connection)) connection.destroy();
  }

  closed(connection: Guest): void {
    this.#connections.delete(connection as ClientConnection | Http2Connection);
    this.limits.leave(connection);
  }

  clientRefused(problem: string, address: string): void {
    this.#options.onClientRefused?.(problem, address);
  }

  answerId(reason: string): string {
    const { metrics, onUnopened, random } = this.#services;
    const requestId = requestIdOf(undefined, random);
    metrics?.badRequest(reason.replaceAll("_", "-"));
    onUnopened?.({ requestId, status: 400, reason });
    return requestId;
  }

  onError(error: unknown): void {
    this.#services.onError(error);
  }

  #enter(connection: ClientConnection | Http2Connection): boolean {
    const entered = this.limits.enter(connection);
    if (entered) this.#connections.add(connection);
    // Handshakes may have been turned away since the last connection.
    for (; this.#told < this.limits.turnedAway; this.#told++) this.#turnedAway();
    return entered;
  }

  #turnedAway(): void {
    this.#services.metrics?.connectionRefused();
    this.#services.onUnopened?.({ reason: "connection_refused" });
  }

  #createParser(): Server {
    const { limits, timers } = this.#services;
    const parser = createServer({
      insecureHTTPParser: false,
      // Node's limit includes the request target. The proxy checks both sizes again, so 414 and 431 stay distinct.
      maxHeaderSize: limits.headerBytes + limits.targetBytes,
      headersTimeout: timers.requestHeaders,
      // Node's limit includes the body, which may take long while bytes still arrive.
      requestTimeout: 0,
      connectionsCheckingInterval: Math.max(20, Math.min(5_000, timers.requestHeaders / 4)),
      keepAliveTimeout: timers.clientKeepAlive,
      // The proxy itself answers a request without Host.
      requireHostHeader: false,
    });
    parser.maxHeadersCount = 0;
    const accept = (request: IncomingMessage, response: ServerResponse, expectation: Expectation): void => {
      (request.socket as Tagged)[CONNECTION]?.accept(request, response, expectation);
    };
    parser.on("request", (request, response) => accept(request, response, "none"));
    parser.on("checkContinue", (request, response) => accept(request, response, "continue"));
    parser.on("checkExpectation", (request, response) => accept(request, response, "unknown"));
    parser.on("clientError", (error: Error & { code?: string; reason?: string }, socket) => {
      (socket as Tagged)[CONNECTION]?.failed(error.code, error.reason);
    });
    const refuse = (_request: IncomingMessage, socket: unknown): void => {
      // Node has removed its listeners from the socket, the error listener included.
      (socket as Tagged).on("error", () => (socket as Tagged).destroy());
      (socket as Tagged)[CONNECTION]?.refuse(UPGRADE_REFUSED);
    };
    parser.on("upgrade", refuse);
    parser.on("connect", refuse);
    // Node begins to check the time for headers when its server listens; the listeners of the proxy do that in its place.
    parser.emit("listening");
    return parser;
  }
}

/** Of an IPv4 client on a dual-stack listener without its prefix. */
function clientAddress({ remoteAddress = "unknown" }: Socket): string {
  return remoteAddress.startsWith("::ffff:") ? remoteAddress.slice(7) : remoteAddress;
}
