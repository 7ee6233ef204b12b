import { type NetConnectOpts, connect as netConnect, type Socket } from "node:net";
import type { buildConnector } from "undici";
import { type Clock, expireAfter } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/** Opens a socket; emits `connect` or `error`. */
export type Connect = (options: NetConnectOpts) => Socket;

/** `code` of the error of a connection that did not open in time. */
export const CONNECT_TIMEOUT = "UPSTREAM_CONNECT_TIMEOUT";

/** Milliseconds of silence after which the kernel checks whether the model server's machine still answers. */
const KEEP_ALIVE_PROBE = 60_000;

/**
 * Opens undici's connections to an endpoint: plain TCP without Nagle's delay. After `timeout` milliseconds of `clock` the
 * connection fails with an error of code `CONNECT_TIMEOUT`.
 */
export function connector(clock: Clock, timeout: number, connect: Connect = netConnect): buildConnector.connector {
  return (options, callback) => {
    let settled = false;
    const host = options.hostname;
    const port = Number(options.port) || 80;
    const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_PROBE });
    const timer = expireAfter(clock, timeout, () =>
      socket.destroy(new SluiceError(CONNECT_TIMEOUT, `no connection to ${host}:${port} within ${timeout} ms`)),
    );
    socket.once("connect", () => {
      timer.cancel();
      settled = true;
      callback(null, socket);
    });
    // The listener stays for the life of the socket: an error between two owners would otherwise crash the process.
    socket.on("error", (error) => {
      timer.cancel();
      if (settled) return;
      settled = true;
      callback(error, null);
    });
  };
}
