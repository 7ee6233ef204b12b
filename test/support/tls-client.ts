import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectH2,
  type OutgoingHttpHeaders,
} from "node:http2";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { TlsPair } from "../../src/base/grpc/tls.ts";

/** How a client of TLS connects to a proxy on this machine. */
export interface TlsClientOptions {
  readonly port: number;
  /** The authority of the proxy's certificate, PEM. */
  readonly ca: string;
  /** What the client shows. */
  readonly client?: TlsPair | undefined;
}

/** A session of HTTP/2 whose errors end nothing but itself. */
export function h2Session({ port, ca, client }: TlsClientOptions, more: object = {}): ClientHttp2Session {
  const session = connectH2(`https://localhost:${port}`, { ca, ...client, ...more });
  session.on("error", () => {});
  return session;
}

/** An answer over HTTP/2, as far as it came. */
export interface H2Reply {
  readonly stream: ClientHttp2Stream;
  readonly headers: OutgoingHttpHeaders;
  readonly text: string;
  /** The code of the reset; 0 = the answer is complete. */
  readonly code: number;
}

/** Sends one request and reads its answer to the end, complete or reset. */
export function askSession(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body?: string | Buffer,
): Promise<H2Reply> {
  const stream = session.request({ ":authority": "gw", ...headers }, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  return replyOf(stream);
}

/** The answer on a stream, once the stream is gone. */
export function replyOf(stream: ClientHttp2Stream): Promise<H2Reply> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    let head: OutgoingHttpHeaders = {};
    stream.on("response", (received) => {
      head = received;
    });
    stream.on("data", (part: Buffer) => parts.push(part));
    stream.on("error", () => {});
    stream.on("close", () =>
      resolve({ stream, headers: head, text: Buffer.concat(parts).toString(), code: stream.rstCode ?? 0 }),
    );
  });
}

/** A connection of TLS that sends and keeps raw bytes. */
export interface RawTls {
  readonly socket: TLSSocket;
  bytes(): Buffer;
  closed(): boolean;
}

/** @param protocol the only one that the client offers */
export async function rawTls(options: TlsClientOptions, protocol: "h2" | "http/1.1"): Promise<RawTls> {
  const { port, ca, client } = options;
  const socket = connectTls({
    port,
    host: "127.0.0.1",
    servername: "localhost",
    ca,
    ...client,
    ALPNProtocols: [protocol],
  });
  const parts: Buffer[] = [];
  let closed = false;
  socket.on("data", (part: Buffer) => parts.push(part));
  socket.on("close", () => {
    closed = true;
  });
  await new Promise<void>((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  socket.on("error", () => {});
  return { socket, bytes: () => Buffer.concat(parts), closed: () => closed };
}
