import type { Socket } from "node:net";
import { buildConnector, Client, type Dispatcher } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { connector } from "../../base/grpc/server-connector.ts";
import { SERVER_TLS_FAILED, type ServerTls } from "../../base/grpc/server-tls.ts";
import { type AttemptFailure, type EndpointMetrics, hostPort } from "../../base/inference/endpoint.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Dialect, PageReader } from "./dialects/dialect.ts";
import type { MetricsHost, PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointDialects, FurtherPage, RunningScrape, ScrapeResult } from "./scraper.ts";

/** Most bytes of a metrics page that are read; vLLM's are about 64 KiB per rank. */
export const MAX_PAGE_BYTES = 4 * 1024 * 1024;
const FIRST_PAGE_BYTES = 128 * 1024;
/** Most pieces of one page that are kept: to exceed it, a server must send less than about 1 KiB at a time. */
const MAX_PIECES = 4096;

const HEADERS = ["accept", "text/plain;version=0.0.4", "user-agent", "sluice"];

/** Codes of failures before there is a connection. */
const CONNECT_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "EHOSTDOWN",
  "ENETUNREACH",
  "ENETDOWN",
  "EADDRNOTAVAIL",
  "EACCES",
  "EINVAL",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EMFILE",
  "ENFILE",
  SERVER_TLS_FAILED,
]);
/** The certificate is not accepted, or there is no TLS at all: the server is there, but its page cannot be trusted or read. */
const TLS_CODE = /^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_|HOSTNAME_)/;
const TIMEOUT_CODES: ReadonlySet<string> = new Set(["ETIMEDOUT", "UND_ERR_CONNECT_TIMEOUT"]);

interface ConnectOptions {
  /** Milliseconds. */
  readonly timeout: number;
  readonly rejectUnauthorized: boolean;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** State that is kept per endpoint between scrapes. */
class ScrapeConnection {
  readonly client: Client;
  /** The page comes from the serving port of an endpoint that speaks TLS. */
  readonly secured: boolean;
  /** The address to which the client connects. */
  readonly host: MetricsHost;
  reader: PageReader;
  readonly #endpoint: PoolEndpoint;
  #dialect: Dialect;
  /** The connection has not carried a whole page yet. */
  fresh = true;
  /** The server has accepted the newest connection, so it is there. With TLS the handshake may still run. */
  accepted = false;

  /** @param tls speaks TLS with the settings for requests; undefined = as `connect` and the origin say */
  constructor(
    host: MetricsHost,
    origin: string,
    connect: ConnectOptions,
    dialect: Dialect,
    clock: Clock,
    tls: ServerTls | undefined,
    endpoint: PoolEndpoint,
  ) {
    this.#endpoint = endpoint;
    this.host = host;
    this.secured = tls !== undefined;
    this.#dialect = dialect;
    this.reader = dialect.createReader(endpoint);
    const { timeout } = connect;
    const open =
      tls === undefined
        ? buildConnector({ ...connect, allowH2: false })
        : connector({ clock, timeout, tls, onAccepted: () => this.#accept() });
    this.client = new Client(origin, {
      connect: (options, callback) => {
        this.accepted = false;
        // The connector of undici returns its socket, which its type does not say.
        const socket = open(options, callback) as unknown as Socket | undefined;
        socket?.once("connect", () => this.#accept());
      },
      // The collector's wheel holds the only timeout: a timer per request would cost more than the request.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.client.on("connect", () => {
      this.fresh = true;
    });
  }

  #accept(): void {
    this.accepted = true;
  }

  /** The labels of an endpoint may change, and with them its engine. */
  speak(dialect: Dialect): void {
    if (dialect === this.#dialect) return;
    this.#dialect = dialect;
    this.reader = dialect.createReader(this.#endpoint);
  }
}

/**
 * Fetches one page of each endpoint over HTTP, over one keep-alive connection each. The endpoint's dialect reads the page as
 * soon as the last byte has arrived.
 */
export class PageClient {
  /** The request for a page, the same for all. */
  readonly request: Dispatcher.DispatchOptions;
  readonly #clock: Clock;
  readonly #dialects: EndpointDialects;
  readonly #hostOf: (endpoint: PoolEndpoint) => MetricsHost;
  readonly #scheme: string;
  readonly #port: number;
  readonly #connect: ConnectOptions;
  readonly #tls: ServerTls | undefined;
  readonly #lines = new Map<PoolEndpoint, ScrapeConnection>();
  /** Buffer in which pages of several pieces are joined. Reading is synchronous, so one buffer serves all. */
  #page = new Uint8Array(FIRST_PAGE_BYTES);

  /**
   * @param connectTimeout milliseconds after which a pending connection is given up; at least the collector's timeout
   * @param tls for pages at the serving ports of endpoints that speak TLS; undefined = those pages are read as all others
   */
  constructor(clock: Clock, page: FurtherPage, connectTimeout: number, tls?: ServerTls) {
    this.#tls = tls;
    this.#clock = clock;
    this.#dialects = page.dialects;
    this.#hostOf = page.hostOf ?? (({ metricsHost }) => metricsHost);
    this.request = { path: page.path ?? "/metrics", method: "GET", headers: HEADERS };
    this.#scheme = page.scheme ?? "http";
    this.#port = page.port ?? 0;
    this.#connect = {
      timeout: connectTimeout,
      rejectUnauthorized: page.insecureSkipVerify === false,
      ...(page.ca === undefined ? {} : { ca: page.ca }),
      ...page.client,
    };
  }

  /**
   * Starts one fetch; never called while another one of the same endpoint runs.
   * @param previous the values of the page before, for values that the page may omit
   * @param done as of `Scraper.scrape`
   */
  fetch(endpoint: PoolEndpoint, previous: EndpointMetrics, done: (result: ScrapeResult) => void): RunningScrape {
    try {
      const line = this.#lineOf(endpoint);
      const fetch = new PageFetch(this, endpoint, previous, line, done);
      line.client.dispatch(this.request, fetch);
      return fetch;
    } catch (error) {
      // A source without checks may give an address that makes no URL: a failure of this endpoint, not of the process.
      const result: ScrapeResult = { kind: "unreachable", failure: "connect", detail: messageOf(error) };
      const timer = this.#clock.after(0, () => done(result));
      return {
        cancel: () => timer.cancel(),
        expire() {
          timer.cancel();
          return result;
        },
      };
    }
  }

  /** Which part of the page's address differs from the serving address, first the host; undefined = none. */
  elsewhere(endpoint: PoolEndpoint): "address" | "port" | undefined {
    const host = this.#hostOf(endpoint);
    if (host.address !== endpoint.address) return "address";
    return (this.#port || host.port) === endpoint.port ? undefined : "port";
  }

  #lineOf(endpoint: PoolEndpoint): ScrapeConnection {
    const { labels } = endpoint;
    const host = this.#hostOf(endpoint);
    const dialect = this.#dialects.of(labels);
    let line = this.#lines.get(endpoint);
    // The page has another address.
    if (line !== undefined && (line.host.address !== host.address || line.host.port !== host.port)) {
      void line.client.destroy();
      line = undefined;
    }
    if (line === undefined) {
      const serving = this.elsewhere(endpoint) === undefined;
      const tls = serving && this.#tls?.secures(endpoint) === true ? this.#tls : undefined;
      const own = serving && endpoint.scheme === "https" ? "https" : this.#scheme;
      const origin = `${tls === undefined ? own : "http"}://${hostPort(host.address, this.#port || host.port)}`;
      line = new ScrapeConnection(host, origin, this.#connect, dialect, this.#clock, tls, endpoint);
      this.#lines.set(endpoint, line);
    } else line.speak(dialect);
    return line;
  }

  forget(endpoint: PoolEndpoint): void {
    const line = this.#lines.get(endpoint);
    if (line === undefined) return;
    this.#lines.delete(endpoint);
    void line.client.destroy();
  }

  async close(): Promise<void> {
    const lines = [...this.#lines.values()];
    this.#lines.clear();
    await Promise.all(lines.map((line) => line.client.destroy()));
  }

  /** For `PageFetch`: makes values from a whole page. */
  read(previous: EndpointMetrics, reader: PageReader, pieces: readonly Uint8Array[], size: number): ScrapeResult {
    const page = pieces.length === 1 ? pieces[0]! : this.#join(pieces, size);
    const read = reader.read(page, size, previous, this.#clock.now());
    if (read.found === 0)
      return { kind: "unreadable", polled: true, detail: `the page has none of ${read.missing.join(", ")}` };
    return { kind: "read", metrics: read.metrics, partial: read.missing.length > 0 };
  }

  #join(pieces: readonly Uint8Array[], size: number): Uint8Array {
    if (this.#page.length < size) this.#page = new Uint8Array(Math.min(MAX_PAGE_BYTES, size * 2));
    let at = 0;
    for (const piece of pieces) {
      this.#page.set(piece, at);
      at += piece.length;
    }
    return this.#page;
  }
}

/** One scrape under way: the handler of its response. */
class PageFetch implements Dispatcher.DispatchHandler, RunningScrape {
  readonly #owner: PageClient;
  readonly #endpoint: PoolEndpoint;
  readonly #previous: EndpointMetrics;
  readonly #line: ScrapeConnection;
  /** Undefined after the result was given or the scrape was cancelled. */
  #done: ((result: ScrapeResult) => void) | undefined;
  #answered = false;
  /** Set when the answer is no metrics page. Its body is only skipped, so that the connection can be kept. */
  #refusal: string | undefined;
  #pieces: Uint8Array[] = [];
  #size = 0;

  constructor(
    owner: PageClient,
    endpoint: PoolEndpoint,
    previous: EndpointMetrics,
    line: ScrapeConnection,
    done: (result: ScrapeResult) => void,
  ) {
    this.#owner = owner;
    this.#endpoint = endpoint;
    this.#previous = previous;
    this.#line = line;
    this.#done = done;
  }

  cancel(): void {
    this.#done = undefined;
    this.#owner.forget(this.#endpoint);
  }

  expire(detail: string): ScrapeResult {
    this.cancel();
    return this.#late(detail);
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    this.#answered = true;
    if (status > 200) this.#refusal = `HTTP ${status} from ${this.#owner.request.path}`;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done === undefined) return;
    this.#size += chunk.length;
    if (this.#size > MAX_PAGE_BYTES || this.#pieces.length === MAX_PIECES) {
      const tooLarge = `the page ${this.#owner.request.path} has more than ${MAX_PAGE_BYTES} bytes or ${MAX_PIECES} chunks`;
      this.#finish({ kind: "unreadable", polled: false, detail: this.#refusal ?? tooLarge });
      controller.abort(new Error(tooLarge));
    } else if (this.#refusal === undefined) this.#pieces.push(chunk);
  }

  onResponseEnd(): void {
    this.#line.fresh = false;
    if (this.#done === undefined) return;
    if (this.#refusal !== undefined) this.#finish({ kind: "unreadable", polled: false, detail: this.#refusal });
    else this.#finish(this.#owner.read(this.#previous, this.#line.reader, this.#pieces, this.#size));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#done === undefined) return;
    const failure = failureOf(error, this.#line.secured);
    // When the server closes a kept connection at that very moment, this says nothing about the server. The fetch runs once
    // more on a new connection.
    if (failure === "reset" && !this.#answered && !this.#line.fresh) {
      this.#line.fresh = true;
      this.#line.client.dispatch(this.#owner.request, this);
      return;
    }
    // The error after failures at several addresses has a code and no message.
    const { code } = error as NodeJS.ErrnoException;
    const detail = messageOf(error) || (code ?? error.name);
    if (failure === undefined) {
      const what = TLS_CODE.test(code ?? "") ? "TLS" : "not HTTP";
      this.#finish({ kind: "unreadable", polled: false, detail: `${what}: ${detail}` });
    } else if (code === "UND_ERR_CONNECT_TIMEOUT") this.#finish(this.#late(detail));
    else this.#finish(this.#silence(failure, detail));
  }

  /** A server that has accepted the connection is there, however long its page takes: it is busy, not gone. */
  #late(detail: string): ScrapeResult {
    return this.#line.accepted ? this.#unread(detail) : this.#silence("timeout", detail);
  }

  #silence(failure: AttemptFailure, detail: string): ScrapeResult {
    // Silence of another port or host says nothing about the serving one.
    if (this.#owner.elsewhere(this.#endpoint) !== undefined) return this.#unread(detail);
    return { kind: "unreachable", failure, detail };
  }

  #unread(detail: string): ScrapeResult {
    const elsewhere = this.#owner.elsewhere(this.#endpoint);
    return {
      kind: "unreadable",
      polled: false,
      detail: elsewhere === undefined ? detail : `metrics ${elsewhere}: ${detail}`,
    };
  }

  #finish(result: ScrapeResult): void {
    const done = this.#done;
    this.#done = undefined;
    this.#pieces = [];
    done?.(result);
  }
}

/**
 * Undefined: there was an answer, but not in HTTP, or not over trusted TLS.
 * @param secured requests use the same TLS, so they would fail, too
 */
function failureOf(error: Error, secured: boolean): AttemptFailure | undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (error.name === "HTTPParserError" || code === "UND_ERR_HEADERS_OVERFLOW") return undefined;
  if (code === undefined) return "reset";
  if (TLS_CODE.test(code)) return secured ? "connect" : undefined;
  if (CONNECT_CODES.has(code)) return "connect";
  return TIMEOUT_CODES.has(code) ? "timeout" : "reset";
}
