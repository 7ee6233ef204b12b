import { Client } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { connector } from "../../base/grpc/server-connector.ts";
import { type ServerTls, serverTlsError } from "../../base/grpc/server-tls.ts";
import { messageOf } from "../../base/inference/errors.ts";

/** Unanswered requests in a row after which the probe stops. */
const PATIENCE = 3;
/** The most bytes of response headers. */
const MAX_HEADER_BYTES = 64 * 1024;

/** A response that was read to its end, or to the limit of bytes. */
export interface ProbeAnswer {
  readonly kind: "answer";
  readonly status: number;
  /** Lower case, without parameters; "" when there is none. */
  readonly mediaType: string;
  readonly body: Buffer;
  /** The response is longer than the limit of bytes. */
  readonly cut: boolean;
  /** Milliseconds from the request to the end of the response. */
  readonly took: number;
  /** The header `date`. */
  readonly date?: string | undefined;
  /** Wall-clock milliseconds at the start of the request. */
  readonly sentAt?: number | undefined;
}

/** The request got no response, or an incomplete one. */
export interface NoAnswer {
  readonly kind: "none";
  /** `connect`: no connection; `timeout`: no response in time; `broken`: cut off, or not HTTP; `untried`: not sent. */
  readonly reason: "connect" | "timeout" | "broken" | "untried";
  readonly detail: string;
}

export interface ProbeOptions {
  /** `http://host:port`. */
  readonly origin: string;
  /** Sent with every request, in this order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Milliseconds for one request, from connecting to the last byte. */
  readonly timeout: number;
  /** How `https://` origins are reached; absent = as Node.js does by itself. */
  readonly tls?: ServerTls | undefined;
}

/**
 * Sends requests one after the other, each on its own connection and with limits of time and size. After three timeouts in a
 * row it sends no more: a server that hangs costs three timeouts, not one per check.
 */
export class HttpProbe {
  readonly #clock: Clock;
  readonly #options: ProbeOptions;
  readonly #client: Client;
  #unanswered = 0;
  #connections = 0;

  constructor(clock: Clock, options: ProbeOptions) {
    this.#clock = clock;
    this.#options = options;
    const { origin, timeout, tls } = options;
    const isOurs = tls !== undefined && origin.startsWith("https:");
    // Undici must not speak TLS itself then; nor may a usual port of HTTPS get lost in its URL.
    this.#client = new Client(isOurs ? origin.replace("https:", "http:") : origin, {
      // The clock holds the only timeout.
      connect: isOurs ? connector({ clock, timeout, tls }) : { timeout: 0 },
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_HEADER_BYTES,
      // Each request has its own connection, so a broken connection affects no later request.
      pipelining: 0,
    });
    this.#client.on("connect", () => this.#connections++);
  }

  /** Whether any connection has opened. */
  get connected(): boolean {
    return this.#connections > 0;
  }

  get(path: string, maxBytes: number): Promise<ProbeAnswer | NoAnswer> {
    return this.#send("GET", path, undefined, maxBytes);
  }

  /** @param body sent as JSON */
  post(path: string, body: object, maxBytes: number): Promise<ProbeAnswer | NoAnswer> {
    return this.#send("POST", path, JSON.stringify(body), maxBytes);
  }

  async close(): Promise<void> {
    await this.#client.destroy();
  }

  async #send(
    method: "GET" | "POST",
    path: string,
    body: string | undefined,
    maxBytes: number,
  ): Promise<ProbeAnswer | NoAnswer> {
    if (this.#unanswered >= PATIENCE)
      return { kind: "none", reason: "untried", detail: `not sent after ${PATIENCE} requests without an answer` };
    const stop = new AbortController();
    const timer = this.#clock.after(this.#options.timeout, () => stop.abort());
    const connections = this.#connections;
    try {
      const answer = await this.#exchange(method, path, body, maxBytes, stop);
      this.#unanswered = 0;
      return answer;
    } catch (error) {
      if (stop.signal.aborted) {
        this.#unanswered++;
        return { kind: "none", reason: "timeout", detail: `no complete answer within ${this.#options.timeout} ms` };
      }
      const told = this.#options.tls === undefined ? error : tlsProblem(error as Error);
      const detail = messageOf(told) || ((error as NodeJS.ErrnoException).code ?? "unknown failure");
      return { kind: "none", reason: this.#connections === connections ? "connect" : "broken", detail };
    } finally {
      timer.cancel();
    }
  }

  async #exchange(
    method: "GET" | "POST",
    path: string,
    body: string | undefined,
    maxBytes: number,
    stop: AbortController,
  ): Promise<ProbeAnswer> {
    const started = this.#clock.now();
    const sentAt = this.#clock.wall();
    const headers = ["user-agent", "sluice-check-server", "accept", "*/*", ...this.#options.headers.flat()];
    if (body !== undefined) headers.push("content-type", "application/json");
    const response = await this.#client.request({
      method,
      path,
      headers,
      signal: stop.signal,
      ...(body === undefined ? {} : { body }),
    });
    const pieces: Buffer[] = [];
    let size = 0;
    for await (const piece of response.body as AsyncIterable<Buffer>) {
      pieces.push(piece);
      size += piece.length;
      // The end of the loop destroys the body, and with it the connection.
      if (size > maxBytes) break;
    }
    const type = response.headers["content-type"];
    return {
      kind: "answer",
      status: response.statusCode,
      mediaType: String(type ?? "")
        .split(";", 1)[0]!
        .trim()
        .toLowerCase(),
      body: Buffer.concat(pieces).subarray(0, maxBytes),
      cut: size > maxBytes,
      took: this.#clock.now() - started,
      date: response.headers["date"]?.toString(),
      sentAt,
    };
  }
}

/** A server of TLS 1.3 refuses a client certificate only after the handshake: by an alert, or by closing the connection. */
function tlsProblem(error: Error & { code?: string }): Error {
  if (error.code !== "UND_ERR_SOCKET" && error.code !== "ECONNRESET") return serverTlsError(error);
  return new Error(
    "TLS: the server closes the connection after the handshake; it may want a certificate (--server-cert, --server-key)",
    { cause: error },
  );
}
