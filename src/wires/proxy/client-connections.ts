import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock } from "../../base/clock/clock.ts";
import { ConnectionLimits, type Guest, StreamLimits } from "../../base/grpc/h2/limits.ts";
import { ClientConnection } from "./client-connection.ts";
import type { ConnectionHost } from "./connection-host.ts";
import { Http2Connection } from "./http2-connection.ts";
import { Listener, type ListenerHost, type ListenerOptions } from "./listener.ts";
import { requestIdOf } from "./local-answer.ts";
import type { ProxyOptions } from "./options.ts";
import type { ProxyServices } from "./services.ts";

/** All client connections of a proxy, of both versions of HTTP and on all of its listeners. */
export class ClientConnections implements ConnectionHost, ListenerHost {
  readonly limits: ConnectionLimits;
  readonly streams: StreamLimits;
  readonly listeners: Listener[] = [];
  readonly #services: ProxyServices;
  readonly #options: Pick<ProxyOptions, "onClientRefused">;
  readonly #connections = new Set<ClientConnection | Http2Connection>();
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
  }

  http1(socket: Socket, secure: boolean): void {
    const connection = new ClientConnection(this.#services, this, socket, clientAddress(socket), secure);
    if (!this.#enter(connection)) connection.destroy();
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
}

/** Of an IPv4 client on a dual-stack listener without its prefix. */
function clientAddress({ remoteAddress = "unknown" }: Socket): string {
  return remoteAddress.startsWith("::ffff:") ? remoteAddress.slice(7) : remoteAddress;
}
