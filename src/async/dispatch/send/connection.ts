import { connect, isIP, type Socket } from "node:net";
import { type SecureContext, connect as secureConnect } from "node:tls";
import { type buildConnector, Client, type Dispatcher } from "undici";

/** How a `100 Continue` begins; bytes 9 to 11 are the status. */
const START = Buffer.from("HTTP/1.1 100");
const END = Buffer.from("\r\n\r\n");
/** Most bytes of one, with headers; a longer one goes to the parser. */
const LONGEST = 8 * 1024;

/**
 * Takes `100 Continue` out of the bytes before an answer. Sluice asks for none, but a server may send one (RFC 9110 15.2: a
 * client must be able to parse it, and may ignore it), and undici breaks the connection over it.
 */
export class InterimFilter {
  /** The first bytes of a possible `100 Continue`. */
  #held: Buffer | undefined;
  #awaiting = false;

  /** A request leaves: the next bytes are the head of an answer. */
  expect(): void {
    this.#awaiting = true;
    this.#held = undefined;
  }

  /** Whether `pass` must see the bytes. */
  get awaiting(): boolean {
    return this.#awaiting;
  }

  /** @returns the bytes for the parser; undefined = none yet */
  pass(bytes: Buffer): Buffer | undefined {
    let rest = this.#held === undefined ? bytes : Buffer.concat([this.#held, bytes]);
    this.#held = undefined;
    while (rest.length > 0) {
      const known = Math.min(rest.length, START.length);
      const end = rest.indexOf(END);
      if (rest.compare(START, 0, known, 0, known) !== 0 || (end < 0 && rest.length > LONGEST)) {
        this.#awaiting = false;
        return rest;
      }
      if (end < 0) {
        this.#held = rest;
        return undefined;
      }
      rest = rest.subarray(end + END.length);
    }
    return undefined;
  }
}

/** Milliseconds that an idle connection is kept (async-processor 7.3); a shorter `Keep-Alive` of the server counts. */
const KEEP_ALIVE = 90_000;
/** Milliseconds of silence after which the kernel asks whether the gateway's machine is still there. */
const KEEP_ALIVE_PROBE = 60_000;
/** The most bytes of the headers of an answer. */
const MAX_HEADER_BYTES = 64 * 1024;

/** The settings that the connections of all origins share. */
export interface GatewayConnectionSettings {
  /** For origins with `https:`. */
  readonly secureContext: () => SecureContext;
  readonly rejectUnauthorized: boolean;
}

/** The error for sockets whose request was given up; one object, because no code reads its stack. */
const GIVEN_UP = new Error("the request was given up");

/**
 * One connection to an origin, for one request at a time; an undici client that reconnects when needed. undici's own `Pool`
 * does not fit. It cannot take back a request that waits for a connection, so a gateway that swallows packets would make its
 * queue grow with every timeout. It also visits each connection to find a free one (1,024 in flight: 70 us of processor time
 * per request against 63 here).
 */
export class GatewayConnection {
  readonly #client: Client;
  readonly #settings: GatewayConnectionSettings;
  readonly #interim = new InterimFilter();
  #connecting: Socket | undefined;

  /** @param onDisconnect called after each loss of the connection */
  constructor(
    origin: string,
    settings: GatewayConnectionSettings,
    onDisconnect: (connection: GatewayConnection) => void,
  ) {
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
    // Stays for the life of the socket, so that an error between two owners always has a handler.
    socket.on("error", (error) => {
      if (this.#connecting !== socket) return;
      this.#connecting = undefined;
      callback(error, null);
    });
  }
}

/** undici reads its sockets with `read()`: it sees the bytes that the filter leaves. */
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

/**
 * The kept connections to one scheme, host and port. The connection that was used last is used next, so that unneeded ones grow
 * old and close.
 */
export class GatewayOrigin {
  /** `http://host:port`. */
  readonly name: string;
  readonly #settings: GatewayConnectionSettings;
  readonly #limit: number;
  readonly #idle: GatewayConnection[] = [];
  /** Connections with a request. */
  #busy = 0;

  /** @param limit idle connections that are kept, >= 1 */
  constructor(name: string, settings: GatewayConnectionSettings, limit: number) {
    this.name = name;
    this.#settings = settings;
    this.#limit = limit;
  }

  get busy(): number {
    return this.#busy;
  }

  get idle(): number {
    return this.#idle.length;
  }

  /** A connection for one request; `give` or `drop` follows. */
  take(): GatewayConnection {
    this.#busy++;
    return this.#idle.pop() ?? new GatewayConnection(this.name, this.#settings, this.#disconnected);
  }

  /** The request on the connection ended well. */
  give(connection: GatewayConnection): void {
    this.#busy--;
    if (this.#idle.length < this.#limit) this.#idle.push(connection);
    else connection.destroy();
  }

  /** Cuts a connection whose request did not end well. */
  drop(connection: GatewayConnection): void {
    this.#busy--;
    connection.destroy();
  }

  /** Cuts the idle connections. */
  close(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  /**
   * The server or the keep-alive time has ended an idle connection. A connection with a request reconnects or fails on its own.
   */
  readonly #disconnected = (connection: GatewayConnection): void => {
    const at = this.#idle.indexOf(connection);
    if (at < 0) return;
    this.#idle.splice(at, 1);
    connection.destroy();
  };
}
