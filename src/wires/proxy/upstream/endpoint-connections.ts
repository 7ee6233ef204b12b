import type { Clock, Timer } from "../../../base/clock/clock.ts";
import type { SocketOpener } from "../../../base/grpc/server-connector.ts";
import type { BeginQueue } from "../begin-queue.ts";
import { requestHeadText } from "./request-bytes.ts";
import type { UpstreamHandler, UpstreamRequest, UpstreamTransport } from "./transport.ts";
import { type CallHost, UpstreamCall } from "./upstream-call.ts";
import { type ConnectionKeeper, UpstreamConnection } from "./upstream-connection.ts";

/** What the connections of all endpoints share. */
export interface ConnectionSettings {
  readonly clock: Clock;
  /** Opens a socket to an endpoint. */
  readonly open: SocketOpener;
  /** Lets the requests over used connections begin. */
  readonly beginnings: BeginQueue;
  /** Milliseconds for which a connection without a request stays open. */
  readonly keepAlive: number;
  /** Bytes of all header names and values of an answer. */
  readonly headerBytes: number;
}

/** A server closes a connection at the end of the time that it names. So many milliseconds before, no request may begin. */
const MARGIN = 2000;

/** The connections to one endpoint, without a limit: the number of client connections bounds them. */
export class EndpointConnections implements UpstreamTransport, CallHost, ConnectionKeeper {
  readonly #settings: ConnectionSettings;
  readonly #hostname: string;
  readonly #port: string;
  /** All whose socket is open. */
  readonly #open = new Set<UpstreamConnection>();
  /** Those without a call. The one used last is taken first, so that the others can close. */
  readonly #idle: UpstreamConnection[] = [];
  /** Calls that wait for a socket. */
  readonly #connecting = new Set<UpstreamCall>();
  /** Closes idle connections when their time is over; one for all. */
  #timer: Timer | undefined;
  #state: "open" | "closing" | "destroyed" = "open";

  /** @param hostPort host name or address with port */
  constructor(hostPort: string, settings: ConnectionSettings) {
    const { hostname, port } = new URL(`http://${hostPort}`);
    this.#hostname = hostname;
    this.#port = port;
    this.#settings = settings;
  }

  get headerBytes(): number {
    return this.#settings.headerBytes;
  }

  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void {
    const head = requestHeadText(request);
    if (head instanceof Error) {
      handler.onResponseError(head);
      return;
    }
    this.#next(new UpstreamCall(this, request, head.text, head.reusable, handler));
  }

  carry(call: UpstreamCall): void {
    const connection = call.connection!;
    if (this.#state === "destroyed") call.handler.onResponseError(closed());
    // Nothing was sent, so this is no retry.
    else if (connection.broken) this.#next(call);
    else connection.carry(call);
  }

  free(connection: UpstreamConnection, keptFor: number): void {
    const { clock, keepAlive } = this.#settings;
    const ms = Number.isNaN(keptFor) ? keepAlive : Math.min(keptFor - MARGIN, keepAlive);
    if (this.#state !== "open" || ms <= 0) {
      connection.fail(closed());
      return;
    }
    connection.usableUntil = clock.now() + ms;
    this.#idle.push(connection);
    this.#watch(ms);
  }

  gone(connection: UpstreamConnection): void {
    this.#open.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  close(): void {
    if (this.#state === "open") this.#state = "closing";
    this.#timer?.cancel();
    for (const connection of this.#idle.splice(0)) connection.fail(closed());
  }

  async destroy(): Promise<void> {
    this.#state = "destroyed";
    this.#timer?.cancel();
    const open = [...this.#open];
    for (const call of this.#connecting) call.handler.onResponseError(closed());
    this.#connecting.clear();
    for (const connection of open) connection.fail(closed());
    await Promise.all(open.map((connection) => connection.closed()));
  }

  /** Takes an idle connection for a call, or opens one. */
  #next(call: UpstreamCall): void {
    const now = this.#settings.clock.now();
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined) break;
      if (connection.broken) continue;
      if (connection.usableUntil <= now) {
        connection.fail(closed());
        continue;
      }
      // The server may have closed it, and its FIN wait to be read.
      call.connection = connection;
      this.#settings.beginnings.add(call);
      return;
    }
    this.#connect(call);
  }

  #connect(call: UpstreamCall): void {
    const connection = new UpstreamConnection(this);
    call.connection = undefined;
    this.#connecting.add(call);
    const options = { hostname: this.#hostname, port: this.#port, onread: connection.onread };
    this.#settings.open(options, (error, socket) => {
      const waited = this.#connecting.delete(call);
      if (socket === null) {
        if (waited) call.handler.onResponseError(error ?? new Error("closed"));
      } else if (!waited) socket.destroy();
      else {
        this.#open.add(connection);
        connection.open(socket);
        connection.carry(call);
      }
    });
  }

  #watch(ms: number): void {
    this.#timer ??= this.#settings.clock.after(ms, () => this.#sweep(), true);
  }

  #sweep(): void {
    this.#timer = undefined;
    const now = this.#settings.clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const connection of [...this.#idle]) {
      if (connection.usableUntil <= now) connection.fail(closed());
      else next = Math.min(next, connection.usableUntil);
    }
    if (next < Number.POSITIVE_INFINITY) this.#watch(next - now);
  }
}

function closed(): Error {
  return new Error("the connections to the endpoint are closed");
}
