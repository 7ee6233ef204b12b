import { messageOf, SluiceError } from "./errors.ts";

/** An address to listen on. */
export interface ListenAddress {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
}

/**
 * Reads `host:port`, `[v6]:port`, `:port` (all interfaces) or a bare port (loopback).
 * @param what the flag, for the message
 * @throws SluiceError FLAG_VALUE
 */
export function parseListenAddress(text: string, what: string): ListenAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]:|([^:[\]\s]*):)?(\d{1,5})$/.exec(text.trim());
  const port = match === null ? Number.NaN : Number(match[3]);
  if (match === null || port > 65535)
    throw new SluiceError(
      "FLAG_VALUE",
      `${what} "${text}" is not an address to listen on; write host:port, [ipv6]:port or a port, for example 127.0.0.1:8080`,
    );
  const host = match[1] ?? match[2];
  return { host: host === undefined ? "127.0.0.1" : host === "" ? "0.0.0.0" : host, port };
}

/**
 * The error of a server that cannot listen. @param where its address, and what it serves if the process has several servers
 * @param cause the error of Node.js
 */
export function listenFailed(where: string, cause: unknown): SluiceError {
  // Node.js repeats the call and the address: `listen EADDRINUSE: address already in use 0.0.0.0:8000`.
  const problem = messageOf(cause).replace(/^listen (E[A-Z]+): (.*?)(?: \S*:\d+)?$/, "$2 ($1)");
  return new SluiceError("LISTEN_FAILED", `cannot listen on ${where}: ${problem}`, { cause });
}
