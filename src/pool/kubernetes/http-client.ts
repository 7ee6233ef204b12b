import { Pool } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { ApiCall, GrowingBytes, type Receiver, WatchLineSplitter } from "./api-call.ts";
import type { ApiClient, ApiRequest } from "./api-client.ts";
import { ApiError, answerError } from "./api-error.ts";
import type { Credentials } from "./credentials.ts";

const DEFAULT_TIMEOUT = 30_000;
/** Most connections at a time: each watch keeps one. */
const MAX_CONNECTIONS = 128;
/** Most bytes of an answer: of a GET, which may be a page of objects, and of any other request. */
const MAX_READ = 64 * 1024 * 1024;
const MAX_WRITTEN = 1024 * 1024;
/** Most bytes of one line of a stream: etcd keeps no object above 1.5 MiB. */
const MAX_LINE = 4 * 1024 * 1024;

interface HttpApiClientOptions {
  /** URL; may have a path. */
  readonly server: string;
  readonly credentials: Credentials;
  readonly clock: Clock;
  readonly log?: Logger;
}

/**
 * An API server over HTTP/1.1, one connection per request at a time. When a token is refused, it is read again and tried once
 * more. A GET whose connection broke before the answer is sent once more. No redirects, no proxies, no compression.
 */
export class HttpApiClient implements ApiClient {
  readonly server: string;
  readonly #url: URL;
  readonly #credentials: Credentials;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #calls = new Set<ApiCall>();
  #pool: Pool | undefined;
  /** The credentials of the pool's connections. */
  #shown = "";
  #closed = false;

  constructor({ server, credentials, clock, log = silentLogger }: HttpApiClientOptions) {
    this.#url = new URL(server);
    this.server = server.replace(/\/+$/, "");
    this.#credentials = credentials;
    this.#clock = clock;
    this.#log = log;
  }

  /** As the interface says; answers are bounded: 64 MiB to a GET, else 1 MiB. */
  async request(request: ApiRequest): Promise<unknown> {
    let body = "";
    const limit = request.method === "GET" ? MAX_READ : MAX_WRITTEN;
    await this.#send(request, false, (): Receiver => {
      const bytes = new GrowingBytes();
      return {
        opened() {},
        data: (piece) => {
          if (bytes.size + piece.length > limit)
            throw this.#unusable(request, `with more than ${limit} bytes, the limit`);
          bytes.append(piece);
        },
        ended() {
          body = bytes.text();
        },
      };
    });
    try {
      return body === "" ? null : JSON.parse(body);
    } catch {
      throw this.#unusable(request, "with something that is not JSON");
    }
  }

  /** As the interface says; `timeout` is for the status line, and a line has at most 4 MiB. */
  stream(request: ApiRequest, onOpen: () => void, onLine: (line: string) => void): Promise<void> {
    return this.#send(request, true, (opened): Receiver => {
      const tooLong = (): ApiError => this.#unusable(request, `with a line of more than ${MAX_LINE} bytes`);
      const lines = new WatchLineSplitter(MAX_LINE, onLine, tooLong);
      return {
        opened() {
          opened();
          onOpen();
        },
        data: (piece) => lines.push(piece),
        ended: () => lines.end(),
      };
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const call of this.#calls) call.fail(this.#gone("Sluice closed the connection"));
    await this.#pool?.destroy();
    this.#pool = undefined;
  }

  /** @param receiver makes the consumer of the answer; its argument is a function that ends the timeout of a stream */
  async #send(request: ApiRequest, streaming: boolean, receiver: (opened: () => void) => Receiver): Promise<void> {
    const { signal, timeout = DEFAULT_TIMEOUT } = request;
    let call: ApiCall | undefined;
    let failure: ApiError | undefined;
    const giveUp = (why: string): void => {
      failure ??= this.#gone(why);
      call?.fail(failure);
    };
    const onAbort = (): void => giveUp("Sluice gave up the request");
    const timer = this.#clock.after(
      timeout,
      () => giveUp(`no answer to ${request.method} ${request.path} within ${timeout / 1000} s`),
      true,
    );
    const opened = (): void => {
      if (streaming) timer.cancel();
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      for (let attempt = 0; ; attempt++) {
        const token = await this.#token();
        if (this.#closed) giveUp("Sluice closed the connection");
        if (signal?.aborted) onAbort();
        if (failure !== undefined) throw failure;
        call = this.#start(request, token, receiver(opened));
        try {
          await call.done;
          return;
        } catch (error) {
          if (attempt > 0 || failure !== undefined || !(await this.#mayRepeat(request, call, error, token)))
            throw error;
        } finally {
          this.#calls.delete(call);
        }
      }
    } catch (error) {
      const { method, path } = request;
      if (!signal?.aborted) this.#log.debug({ method, path, problem: messageOf(error) }, "API request failed");
      throw error;
    } finally {
      timer.cancel();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  async #token(): Promise<string | undefined> {
    try {
      const token = await this.#credentials.token();
      if (token !== undefined && !/^[\x21-\x7e]*$/.test(token))
        throw new SluiceError("KUBERNETES_TOKEN", "the token has characters that an HTTP header cannot have");
      return token;
    } catch (cause) {
      throw new ApiError(
        `no credentials for ${this.server}: ${messageOf(cause)}`,
        { status: 0, reason: "" },
        { cause },
      );
    }
  }

  /** @param shown the token that was sent */
  async #mayRepeat({ method }: ApiRequest, { broken }: ApiCall, error: unknown, shown: string | undefined) {
    if (broken) return method === "GET";
    if (!(error instanceof ApiError) || error.status !== 401) return false;
    this.#credentials.refused?.();
    return (await this.#token()) !== shown;
  }

  #start(request: ApiRequest, token: string | undefined, receiver: Receiver): ApiCall {
    const { method, path, query, body, contentType = "application/json" } = request;
    const call = new ApiCall(this.server, receiver, (status, retryAfter, text) =>
      answerError(this.server, request, { status, retryAfter, body: text, wall: this.#clock.wall() }),
    );
    this.#calls.add(call);
    const headers = ["accept", "application/json", "user-agent", "sluice"];
    if (token !== undefined && token !== "") headers.push("authorization", `Bearer ${token}`);
    if (body !== undefined) headers.push("content-type", contentType);
    this.#connections().dispatch(
      {
        method,
        path: `${this.#url.pathname.replace(/\/+$/, "")}${path}${queryText(query)}`,
        headers,
        body: body === undefined ? null : JSON.stringify(body),
      },
      call,
    );
    return call;
  }

  /** The connection pool, made again when certificates have changed. Requests under way keep their connections. */
  #connections(): Pool {
    const { ca, insecureSkipVerify, serverName, cert, key } = this.#credentials;
    const shown = JSON.stringify([ca, insecureSkipVerify, serverName, cert, key]);
    if (this.#pool !== undefined && shown === this.#shown) return this.#pool;
    this.#pool?.close().catch(() => {});
    this.#shown = shown;
    this.#pool = new Pool(this.#url.origin, {
      connections: MAX_CONNECTIONS,
      allowH2: false,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: {
        timeout: 10_000,
        // A peer that vanished is noticed 10 s after these milliseconds: Linux then probes every second.
        keepAlive: true,
        keepAliveInitialDelay: 15_000,
        rejectUnauthorized: !insecureSkipVerify,
        ...(ca === undefined ? {} : { ca }),
        ...(serverName === undefined ? {} : { servername: serverName }),
        ...(cert === undefined || key === undefined ? {} : { cert, key }),
      },
    });
    return this.#pool;
  }

  #gone(why: string): ApiError {
    return new ApiError(`${this.server}: ${why}`, { status: 0, reason: "" });
  }

  #unusable({ method, path }: ApiRequest, how: string): ApiError {
    return new ApiError(`${this.server} answered ${method} ${path} ${how}`, { status: 0, reason: "" });
  }
}

function queryText(query: ApiRequest["query"]): string {
  if (query === undefined) return "";
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.append(name, String(value));
  return parameters.size === 0 ? "" : `?${parameters}`;
}
