import http2 from "node:http2";
import { gzipSync } from "node:zlib";

/** Puts the five-byte gRPC prefix in front of `message`. */
export function framed(message: Uint8Array, compressed = false): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = compressed ? 1 : 0;
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** How a call ended: gRPC status and message, or the code of a reset when there was no status. */
export interface CallEnd {
  readonly status: number | undefined;
  readonly message: string;
  readonly httpStatus: number | undefined;
  readonly resetCode: number;
  /** What the server says it can read (`grpc-accept-encoding`). */
  readonly acceptEncoding: string | undefined;
}

export interface GrpcClientOptions {
  /** Dial TLS without checking the certificate. */
  readonly tls?: boolean;
  readonly alpn?: readonly string[];
  /** A certificate to show, PEM. */
  readonly cert?: string;
  readonly key?: string;
  /** Flow-control window per stream that this client grants, bytes. */
  readonly window?: number;
  /** The client's own. */
  readonly address?: string;
}

/** A small gRPC client for tests and benches: one connection, as bare as possible, so that it can misbehave on purpose. */
export class GrpcClient {
  readonly session: http2.ClientHttp2Session;
  /** GOAWAY frames received. */
  goaways = 0;

  private constructor(session: http2.ClientHttp2Session) {
    this.session = session;
    session.on("goaway", () => this.goaways++);
    session.on("error", () => {});
  }

  /** Resolves once the connection is usable; rejects when it cannot be had. */
  static connect(port: number, options: GrpcClientOptions = {}): Promise<GrpcClient> {
    return new Promise((resolve, reject) => {
      const session = http2.connect(`${options.tls ? "https" : "http"}://127.0.0.1:${port}`, {
        rejectUnauthorized: false,
        ...(options.address === undefined ? {} : { localAddress: options.address }),
        ...(options.alpn === undefined ? {} : { ALPNProtocols: [...options.alpn] }),
        ...(options.cert === undefined ? {} : { cert: options.cert, key: options.key }),
        settings: { enablePush: false, initialWindowSize: options.window ?? 1 << 20 },
        maxSessionMemory: 10_000,
      });
      session.once("error", reject);
      session.once("remoteSettings", () => {
        session.setLocalWindowSize(16 << 20);
        resolve(new GrpcClient(session));
      });
    });
  }

  /** Opens a call. */
  open(path: string, headers: http2.OutgoingHttpHeaders = {}): GrpcCall {
    return new GrpcCall(
      this.session.request({
        ":method": "POST",
        ":path": path,
        te: "trailers",
        "content-type": "application/grpc",
        ...headers,
      }),
    );
  }

  /** One message there, one back. */
  async unary(path: string, message: Uint8Array): Promise<{ reply: Buffer | undefined; end: CallEnd }> {
    const call = this.open(path);
    call.send(message);
    call.halfClose();
    const reply = await call.next();
    return { reply, end: await call.end };
  }

  close(): void {
    this.session.destroy();
  }
}

/** One call. */
export class GrpcCall {
  readonly stream: http2.ClientHttp2Stream;
  /** Settles when the stream is gone. Never rejects. */
  readonly end: Promise<CallEnd>;
  #input: Buffer = Buffer.alloc(0);
  readonly #messages: Buffer[] = [];
  #waiting: ((message: Buffer | undefined) => void) | undefined;
  #over = false;

  constructor(stream: http2.ClientHttp2Stream) {
    this.stream = stream;
    let headers: http2.IncomingHttpHeaders = {};
    let trailers: http2.IncomingHttpHeaders = {};
    stream.on("response", (received) => {
      headers = received;
    });
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("data", (chunk: Buffer) => this.#received(chunk));
    stream.on("error", () => {});
    this.end = new Promise((resolve) => {
      stream.on("close", () => {
        this.#over = true;
        this.#waiting?.(undefined);
        const status = trailers["grpc-status"] ?? headers["grpc-status"];
        const message = trailers["grpc-message"] ?? headers["grpc-message"] ?? "";
        resolve({
          status: status === undefined ? undefined : Number(status),
          message: decodeURIComponent(String(message)),
          httpStatus: headers[":status"] === undefined ? undefined : Number(headers[":status"]),
          resetCode: stream.rstCode ?? 0,
          acceptEncoding: headers["grpc-accept-encoding"]?.toString(),
        });
      });
    });
  }

  /** Sends a message in one write. @param compress with gzip */
  send(message: Uint8Array, compress = false): void {
    this.stream.write(framed(compress ? gzipSync(message) : message, compress));
  }

  /** Sends bytes as they are; resolves when they have left, so that the next ones travel in another DATA frame. */
  sendRaw(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      this.stream.write(bytes, () => resolve());
    });
  }

  /** The next message; undefined once the call is over. One caller at a time. */
  next(): Promise<Buffer | undefined> {
    const ready = this.#messages.shift();
    if (ready !== undefined || this.#over) return Promise.resolve(ready);
    return new Promise((resolve) => {
      this.#waiting = (message) => {
        this.#waiting = undefined;
        resolve(message);
      };
    });
  }

  halfClose(): void {
    this.stream.end();
  }

  /** RST_STREAM with any code, 0 included. */
  reset(code: number): void {
    this.stream.close(code);
  }

  #received(chunk: Buffer): void {
    this.#input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    for (;;) {
      if (this.#input.length < 5) return;
      const end = 5 + this.#input.readUInt32BE(1);
      if (this.#input.length < end) return;
      const message = this.#input.subarray(5, end);
      this.#input = this.#input.subarray(end);
      if (this.#waiting !== undefined) this.#waiting(message);
      else this.#messages.push(message);
    }
  }
}
