import { type Dispatcher, Pool } from "undici";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";

/** Longest answer that is read; a vector of 10,000 series has about 2 MiB. */
export const MAX_METRICS_BYTES = 4 * 1024 * 1024;
/** Milliseconds to open a connection; the caller limits the whole question. */
const CONNECT_TIMEOUT = 5000;
/** Most questions under way at a time; more wait for one of them. */
const CONNECTIONS = 4;

export interface MetricHttpRequest {
  readonly method: "GET" | "POST";
  /** The part after the URL's path, with its query; begins with "/", or is "" for the URL itself. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface MetricHttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Uint8Array;
}

/** A server with figures over HTTP: bounded answers, no redirects, no retries, no compression. */
export class MetricHttp {
  /** The server's address for messages: without user, password and query. */
  readonly shown: string;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #search: string;
  readonly #authorization: string | undefined;

  /** @throws SluiceError GATE_PARAMETERS when `url` is no absolute http or https URL */
  constructor(url: string) {
    const parsed = /^https?:\/\//i.test(url) && URL.canParse(url) ? new URL(url) : undefined;
    if (parsed === undefined)
      throw new SluiceError(
        "GATE_PARAMETERS",
        "a metrics URL must begin with http:// or https://, such as http://prometheus:9090",
      );
    this.#path = parsed.pathname;
    this.#search = parsed.search;
    this.shown = `${parsed.origin}${parsed.pathname}`;
    const user = `${decodeURIComponent(parsed.username)}:${decodeURIComponent(parsed.password)}`;
    this.#authorization = user === ":" ? undefined : `Basic ${Buffer.from(user).toString("base64")}`;
    this.#pool = new Pool(parsed.origin, {
      connections: CONNECTIONS,
      allowH2: false,
      connect: { timeout: CONNECT_TIMEOUT },
      // The only deadline is the caller's signal: one clock, virtual in tests.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** @throws SluiceError METRIC_SOURCE; the signal's reason when it was aborted */
  async send({ method, path, headers, body }: MetricHttpRequest, signal: AbortSignal): Promise<MetricHttpAnswer> {
    try {
      const response = await this.#pool.request({
        method,
        path: this.#pathOf(path),
        headers: {
          "user-agent": "sluice",
          ...headers,
          ...(this.#authorization === undefined ? {} : { authorization: this.#authorization }),
        },
        ...(body === undefined ? {} : { body }),
        signal,
      });
      return { status: response.statusCode, headers: response.headers, body: await whole(response.body) };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // An error after several addresses has a code and no message.
      const detail = messageOf(error) || ((error as NodeJS.ErrnoException).code ?? "no connection");
      throw new SluiceError("METRIC_SOURCE", `${this.shown}: ${detail}`, { cause: error });
    }
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }

  #pathOf(path: string): string {
    const joined = path === "" ? this.#path : `${this.#path.replace(/\/+$/, "")}${path}`;
    return joined.includes("?") ? `${joined}${this.#search.replace("?", "&")}` : `${joined}${this.#search}`;
  }
}

async function whole(body: Dispatcher.ResponseData["body"]): Promise<Uint8Array> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of body as AsyncIterable<Buffer>) {
    size += piece.length;
    // Leaving the loop destroys the body and its connection.
    if (size > MAX_METRICS_BYTES) throw new Error(`the answer has more than ${MAX_METRICS_BYTES} bytes`);
    pieces.push(piece);
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, size);
}
