import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Duplex } from "node:stream";

/** A request that a reader of HTTP/1.1 has accepted. */
export interface ReadRequest {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  /** Name, value, name, value. */
  readonly raw: readonly string[];
  readonly expectation: string;
  /** The reader would keep the connection. */
  readonly keepAlive: boolean;
  body: string;
  readonly complete: boolean;
}

/** What a reader made of the bytes of one connection. */
export interface Reading {
  readonly requests: ReadRequest[];
  /** Why it stopped; undefined = it would read on. */
  stopped: "bad" | "too large" | "upgrade" | undefined;
}

/** A socket that gets its bytes from a test, and takes what is written. */
class TestSocket extends Duplex {
  override _read(): void {}
  override _write(_chunk: unknown, _encoding: unknown, done: () => void): void {
    done();
  }
}

/** Reads HTTP/1.1 with `node:http`, which is the other implementation of the gateway's reader. */
export class NodeHttpServer {
  readonly #server: Server;
  readonly #readings = new WeakMap<object, Reading>();

  /** @param mostBytes of the target with the header names and values of a request */
  constructor(mostBytes: number) {
    const server = createServer({
      insecureHTTPParser: false,
      maxHeaderSize: mostBytes,
      headersTimeout: 0,
      requestTimeout: 0,
      keepAliveTimeout: 0,
      requireHostHeader: false,
    });
    server.maxHeadersCount = 0;
    server.on("request", (request, response) => this.#accept(request, response, "none"));
    server.on("checkContinue", (request, response) => this.#accept(request, response, "continue"));
    server.on("checkExpectation", (request, response) => this.#accept(request, response, "unknown"));
    server.on("clientError", (error: Error & { code?: string }, socket) => {
      const reading = this.#readings.get(socket)!;
      reading.stopped ??= error.code === "HPE_HEADER_OVERFLOW" ? "too large" : "bad";
    });
    const upgraded = (request: IncomingMessage): void => {
      this.#readings.get(request.socket)!.stopped ??= "upgrade";
    };
    server.on("upgrade", upgraded);
    server.on("connect", upgraded);
    this.#server = server;
  }

  /** Reads the bytes of one connection, piece by piece. */
  async read(pieces: readonly Buffer[]): Promise<Reading> {
    const reading: Reading = { requests: [], stopped: undefined };
    const socket = new TestSocket();
    this.#readings.set(socket, reading);
    socket.on("error", () => {});
    this.#server.emit("connection", socket);
    for (const piece of pieces) {
      if (reading.stopped !== undefined) break;
      socket.push(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await new Promise((resolve) => setImmediate(resolve));
    socket.removeAllListeners("data");
    socket.destroy();
    return reading;
  }

  #accept(request: IncomingMessage, response: ServerResponse, expectation: string): void {
    const read: ReadRequest = {
      method: request.method!,
      target: request.url!,
      version: request.httpVersion,
      raw: request.rawHeaders,
      expectation,
      keepAlive: response.shouldKeepAlive,
      body: "",
      get complete() {
        return request.complete;
      },
    };
    this.#readings.get(request.socket)!.requests.push(read);
    request.on("data", (chunk: Buffer) => {
      read.body += chunk.toString("latin1");
    });
    request.on("error", () => {});
  }
}
