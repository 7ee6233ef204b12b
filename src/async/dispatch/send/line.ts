import { connect, isIP, type Socket } from "node:net";
import { type SecureContext, connect as secureConnect } from "node:tls";
import { type buildConnector, Client, type Dispatcher } from "undici";
import { InterimFilter } from "./interim-filter.ts";

/** Milliseconds that an idle connection is kept (async-processor 7.3); a shorter `Keep-Alive` of the server counts. */
const KEEP_ALIVE = 90_000;
/** Milliseconds of silence after which the kernel asks whether the gateway's machine is still there. */
const KEEP_ALIVE_PROBE = 60_000;
/** The most bytes of the headers of an answer. */
const MAX_HEADER_BYTES = 64 * 1024;

/** What the connections of all origins have in common. */
export interface LineSettings {
  /** For origins with `https:`. */
  readonly secureContext: () => SecureContext;
  readonly rejectUnauthorized: boolean;
}

/** Handed to sockets whose request was given up; one object, since nobody reads its stack. */
const GIVEN_UP = new Error("the request was given up");

/**
 * One connection to an origin, for one request at a time; an undici client that reconnects when it must. undici's own `Pool`
 * does not fit: a request that waits for a connection cannot be taken back from it, so a gateway that swallows packets would
 * make its queue grow with every timeout. It also looks at each connection to find a free one (1,024 in flight: 70 us of
 * processor time per request against 63 here).
 */
export class Line {
  readonly #client: Client;
  readonly #settings: LineSettings;
  readonly #interim = new InterimFilter();
  #connecting: Socket | undefined;

  /** @param onDisconnect called after each loss of the connection */
  constructor(origin: string, settings: LineSettings, onDisconnect: (line: Line) => void) {
    this.#settings = settings;
    this.#client = new Client(origin, {
      connect: (options, callback) => this.#connect(options, callback),
      keepAliveTimeout: KEEP_ALIVE,
      keepAliveMaxTimeout: KEEP_ALIVE,
      // The client's sweep holds the only timeout.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_HEADER_BYTES,
      allowH2: false,
    });
    this.#client.on("disconnect", () => onDisconnect(this));
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#interim.expect();
    this.#client.dispatch(options, handler);
  }

  /** Cuts the connection, or stops opening it; the request on it fails. */
  destroy(): void {
    this.#connecting?.destroy(GIVEN_UP);
    void this.#client.destroy(GIVEN_UP);
  }

  #connect(options: buildConnector.Options, callback: buildConnector.Callback): void {
    const host = options.hostname;
    const common = { host, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_PROBE };
    const secure = options.protocol === "https:";
    const socket = secure
      ? secureConnect({
          ...common,
          secureContext: this.#settings.secureContext(),
          rejectUnauthorized: this.#settings.rejectUnauthorized,
          port: Number(options.port) || 443,
          ALPNProtocols: ["http/1.1"],
          // Names only: an address is no legal server name (RFC 6066 3) and is checked by the host.
          ...(isIP(host) === 0 ? { servername: host } : {}),
        })
      : connect({ ...common, port: Number(options.port) || 80 });
    this.#connecting = socket;
    withoutInterim(socket, this.#interim);
    socket.once(secure ? "secureConnect" : "connect", () => {
      this.#connecting = undefined;
      callback(null, socket);
    });
    // Stays for the life of the socket, so that an error between two owners is never unhandled.
    socket.on("error", (error) => {
      if (this.#connecting !== socket) return;
      this.#connecting = undefined;
      callback(error, null);
    });
  }
}

/** undici reads its sockets with `read()`: it sees what the filter leaves of it. */
function withoutInterim(socket: Socket, filter: InterimFilter): void {
  const read = socket.read.bind(socket);
  socket.read = (size?: number) => {
    let bytes = read(size);
    while (filter.awaiting && Buffer.isBuffer(bytes)) {
      const left = filter.pass(bytes);
      if (left !== undefined) return left;
      bytes = read(size);
    }
    return bytes;
  };
}
