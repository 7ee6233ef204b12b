import { type NetConnectOpts, connect as netConnect, type Socket } from "node:net";
import type { buildConnector } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/** Opens a socket; emits `connect` or `error`. */
export type Connect = (options: NetConnectOpts) => Socket;

/** `code` of the error of a connection that was not there in time. */
export const CONNECT_TIMEOUT = "UPSTREAM_CONNECT_TIMEOUT";

/** Milliseconds of silence after which the kernel asks whether the model server's machine is still there. */
const KEEP_ALIVE_PROBE = 60_000;

/**
 * How undici opens a connection to an endpoint: plain TCP without Nagle's delay, given up after `timeout` milliseconds
 * of `clock` with an error of code `CONNECT_TIMEOUT`.
 */
export function connector(clock: Clock, timeout: number, connect: Connect = netConnect): buildConnector.connector {
  return (options, callback) => {
    let settled = false;
    const host = options.hostname;
    const port = Number(options.port) || 80;
    const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_PROBE });
    const timer = clock.after(timeout, () =>
      // Timers run before sockets are looked at: where this process stood still, the connection may be there already.
      clock.soon(() => {
        if (!settled)
          socket.destroy(new SluiceError(CONNECT_TIMEOUT, `no connection to ${host}:${port} within ${timeout} ms`));
      }),
    );
    socket.once("connect", () => {
      timer.cancel();
      settled = true;
      callback(null, socket);
    });
    // Stays for the life of the socket, so that an error between two owners is never unhandled.
    socket.on("error", (error) => {
      timer.cancel();
      if (settled) return;
      settled = true;
      callback(error, null);
    });
  };
}
