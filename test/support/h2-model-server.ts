import { createHash } from "node:crypto";
import { createServer as createHttp1 } from "node:http";
import http2 from "node:http2";
import { createServer, type Socket } from "node:net";
import { fixedLimit } from "./slowness.ts";

/** What arrived of one HTTP/2 request. */
export interface H2Request {
  readonly headers: http2.IncomingHttpHeaders;
  readonly trailers: http2.IncomingHttpHeaders;
  readonly bodyLength: number;
  readonly bodySha256: string;
}

const PREFACE = "PRI ";

/**
 * A model server that speaks HTTP/2 without TLS and sends trailers, as gRPC engines do; metrics go over HTTP/1 on the
 * same port. Answers are the body that came, in small pieces, then the trailers.
 */
export class H2ModelServer {
  readonly requests: H2Request[] = [];
  /** Trailers of every answer; none = the last piece ends the stream. */
  trailers: http2.OutgoingHttpHeaders | undefined = { "x-checked": "yes", "grpc-status": "0" };
  readonly port: number;
  readonly #stop: () => void;

  private constructor(port: number, stop: () => void) {
    this.port = port;
    this.#stop = stop;
  }

  /** Listens on a free port of loopback. */
  static async open(): Promise<H2ModelServer> {
    const sockets = new Set<Socket>();
    const metrics = createHttp1((_, response) => {
      response.end("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n");
    });
    const models = http2.createServer();
    const front = createServer((socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      socket.on("error", () => {});
      // The first bytes say which protocol it is.
      socket.once("readable", () => {
        const first = socket.read() as Buffer | null;
        if (first === null) return;
        socket.unshift(first);
        const target = first.subarray(0, PREFACE.length).toString() === PREFACE ? models : metrics;
        target.emit("connection", socket);
      });
    });
    const port = await new Promise<number>((resolve) => {
      front.listen(0, "127.0.0.1", () => {
        const address = front.address();
        resolve(typeof address === "object" && address !== null ? address.port : 0);
      });
    });
    const server = new H2ModelServer(port, () => {
      front.close();
      for (const socket of sockets) socket.destroy();
    });
    models.on("stream", (stream: http2.ServerHttp2Stream, headers) => server.#answer(stream, headers));
    return server;
  }

  stop(): void {
    this.#stop();
  }

  #answer(stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders): void {
    const parts: Buffer[] = [];
    let trailers: http2.IncomingHttpHeaders = {};
    stream.on("error", () => {});
    stream.on("data", (part: Buffer) => parts.push(part));
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("end", () => {
      const body = Buffer.concat(parts);
      const bodySha256 = createHash("sha256").update(body).digest("hex");
      this.requests.push({ headers, trailers, bodyLength: body.length, bodySha256 });
      const send = this.trailers;
      stream.respond({ ":status": 200, "content-type": "application/json" }, { waitForTrailers: send !== undefined });
      if (send !== undefined) stream.on("wantTrailers", () => stream.sendTrailers(send));
      for (let at = 0; at < body.length; at += 50_000) stream.write(body.subarray(at, at + 50_000));
      stream.end();
    });
  }
}

/** What came back of one HTTP/2 request. */
export interface H2Answer {
  readonly status: number;
  readonly headers: http2.IncomingHttpHeaders;
  readonly body: Buffer;
  readonly trailers: http2.IncomingHttpHeaders;
}

/** Sends one HTTP/2 request without TLS, over a connection of its own, with trailers if there are any. */
export function askH2(
  port: number,
  path: string,
  body: Buffer,
  options: { readonly headers?: http2.OutgoingHttpHeaders; readonly trailers?: http2.OutgoingHttpHeaders } = {},
): Promise<H2Answer> {
  return new Promise((resolve, reject) => {
    const session = http2.connect(`http://127.0.0.1:${port}`);
    session.on("error", reject);
    const { trailers: send } = options;
    const stream = session.request(
      { ":method": "POST", ":path": path, ...options.headers },
      { waitForTrailers: send !== undefined },
    );
    const limit = fixedLimit(30_000);
    const timer = setTimeout(() => {
      session.destroy();
      reject(new Error(`no answer within ${limit} ms`));
    }, limit);
    if (send !== undefined) stream.on("wantTrailers", () => stream.sendTrailers(send));
    let headers: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader = {};
    let trailers: http2.IncomingHttpHeaders = {};
    const parts: Buffer[] = [];
    stream.on("response", (received) => {
      headers = received;
    });
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("data", (part: Buffer) => parts.push(part));
    stream.on("error", reject);
    stream.on("close", () => {
      clearTimeout(timer);
      session.close();
      resolve({ status: headers[":status"] ?? 0, headers, body: Buffer.concat(parts), trailers });
    });
    stream.end(body);
  });
}
