import { connect as netConnect, type OnReadOpts } from "node:net";
import type { buildConnector } from "undici";
import { type Clock, expireAfter } from "../clock/clock.ts";
import { SluiceError } from "../inference/errors.ts";
import { type Connect, type ServerTls, serverTlsError } from "./server-tls.ts";

/** `code` of the error of a connection that did not open in time. */
export const CONNECT_TIMEOUT = "UPSTREAM_CONNECT_TIMEOUT";

/** Milliseconds of silence after which the kernel checks whether the model server's machine still answers. */
const KEEP_ALIVE_PROBE = 60_000;

/** The endpoint to which a socket is opened. */
export interface SocketTarget {
  /** Host name or address; that of IPv6 with or without brackets. */
  readonly hostname: string;
  /** "" = 80. */
  readonly port: string;
  /** Node reads into this buffer, if it can. A socket that cannot emits `data`. */
  readonly onread?: OnReadOpts;
}

/** Opens a socket, and calls back once. */
export type SocketOpener = (target: SocketTarget, callback: buildConnector.Callback) => void;

/** How the connections to one endpoint are opened. */
export interface ConnectorOptions {
  readonly clock: Clock;
  /** Milliseconds of `clock` for a connection, its TLS included. */
  readonly timeout: number;
  /** Opens sockets without TLS; `net.connect` by default. */
  readonly connect?: Connect | undefined;
  /** Speaks TLS; absent = plain TCP. */
  readonly tls?: ServerTls | undefined;
  /** The server has accepted the connection. With TLS the handshake still runs. */
  readonly onAccepted?: () => void;
}

/**
 * Opens connections to an endpoint for undici and for the gateway, without Nagle's delay, over TCP or TLS whatever undici takes them for: for `https`
 * undici would open a new connection whenever the Host header changes. After `timeout` the connection fails with an error of
 * code `CONNECT_TIMEOUT`.
 */
export function connector({ clock, timeout, connect, tls, onAccepted }: ConnectorOptions): SocketOpener {
  const open = tls?.connect ?? connect ?? netConnect;
  return (options, callback) => {
    let settled = false;
    const host = options.hostname.replace(/^\[(.*)\]$/, "$1");
    const port = Number(options.port) || 80;
    const { onread } = options;
    const socket = open({
      host,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_PROBE,
      ...(onread === undefined ? {} : { onread }),
    });
    const timer = expireAfter(clock, timeout, () =>
      socket.destroy(new SluiceError(CONNECT_TIMEOUT, `no connection to ${host}:${port} within ${timeout} ms`)),
    );
    if (onAccepted !== undefined) socket.once("connect", onAccepted);
    socket.once(tls === undefined ? "connect" : "secureConnect", () => {
      timer.cancel();
      settled = true;
      callback(null, socket);
    });
    // The listener stays for the life of the socket: an error between two owners would otherwise crash the process.
    socket.on("error", (error) => {
      timer.cancel();
      if (settled) return;
      settled = true;
      callback(tls === undefined ? error : serverTlsError(error), null);
    });
  };
}
