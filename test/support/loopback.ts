import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "./free-port.ts";

/** A request as a raw server read it. */
export interface RawRequest {
  /** Request line and headers, without the empty line. */
  readonly head: string;
  readonly body: Buffer;
  /** 0 for the first request the server got. */
  readonly index: number;
  /** 0 for the first connection the server got. */
  readonly connection: number;
  readonly socket: Socket;
}

/** A server on the loopback interface that answers with exactly the bytes a test wants. */
export interface RawServer {
  readonly port: number;
  readonly requests: RawRequest[];
  readonly sockets: Socket[];
  /** Sockets that are open now. */
  open(): number;
  close(): Promise<void>;
}

/** Reads requests with a length or none and hands each to `answer`. */
export async function rawServer(answer: (request: RawRequest) => void): Promise<RawServer> {
  const requests: RawRequest[] = [];
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    const connection = sockets.push(socket) - 1;
    let pending: Buffer = Buffer.alloc(0);
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      pending = Buffer.concat([pending, chunk]);
      for (;;) {
        const at = pending.indexOf("\r\n\r\n");
        if (at < 0) return;
        const head = pending.subarray(0, at).toString("latin1");
        const chunked = /\r\ntransfer-encoding: *chunked/i.test(head);
        const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        let end = at + 4 + length;
        if (chunked) {
          const last = pending.indexOf("0\r\n\r\n", at + 4);
          if (last < 0) return;
          end = last + 5;
        }
        if (pending.length < end) return;
        const body = Buffer.from(pending.subarray(at + 4, end));
        pending = pending.subarray(end);
        const request = { head, body, index: requests.length, connection, socket };
        requests.push(request);
        answer(request);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    sockets,
    open: () => sockets.filter((socket) => !socket.destroyed).length,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** A port on which nobody listens, nor will, unless whoever asked does. */
export function deadPort(): Promise<number> {
  return freePort();
}

/** A complete answer with a length. */
export function answerBytes(status: number, body: string, headers = ""): string {
  return `HTTP/1.1 ${status} X\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** One piece of a chunked body. */
export function chunkBytes(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

/** A client that sends and keeps raw bytes. */
export interface RawClient {
  readonly socket: Socket;
  /** Everything received, as latin-1. */
  text(): string;
  /** The server's end was seen; by a reset rather than an orderly end? */
  closed(): boolean;
  wasReset(): boolean;
  send(bytes: string | Buffer): void;
}

export async function rawClient(port: number, options: { paused?: boolean } = {}): Promise<RawClient> {
  const parts: Buffer[] = [];
  let ended = false;
  let reset = false;
  const socket = connect({ port, host: "127.0.0.1" });
  socket.on("error", (error: Error & { code?: string }) => {
    if (error.code === "ECONNRESET") reset = true;
  });
  await new Promise<void>((resolve, reject) => socket.once("connect", () => resolve()).once("error", reject));
  socket.on("data", (chunk: Buffer) => parts.push(chunk));
  if (options.paused) socket.pause();
  socket.on("end", () => {
    ended = true;
  });
  socket.on("close", () => {
    ended = true;
  });
  return {
    socket,
    text: () => Buffer.concat(parts).toString("latin1"),
    closed: () => ended,
    wasReset: () => reset,
    send: (bytes) => {
      socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
    },
  };
}
