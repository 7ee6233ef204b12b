import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { AttemptFailure, Endpoint } from "../../src/base/inference/endpoint.ts";
import { ParserTable } from "../../src/picker/apis/parser-table.ts";
import type { ProxyMetrics, ProxyOptions } from "../../src/wires/proxy/options.ts";
import { allowedPath } from "../../src/wires/proxy/path-pattern.ts";
import { PathTable } from "../../src/wires/proxy/path-table.ts";
import { type RunningProxy, startProxy } from "../../src/wires/proxy/server.ts";
import { FakeExchange, type FakePlan, loopbackEndpoint } from "./fake-exchange.ts";
import { deadPort, type RawClient, type RawRequest, type RawServer, rawClient, rawServer } from "./loopback.ts";
import { poll } from "./poll.ts";
import { fixedLimit } from "./slowness.ts";

/** The paths that pass with the default parsers. @param allowed values of `--allow-path` */
export function pathTable(...allowed: string[]): PathTable {
  const parsers = new ParserTable();
  return new PathTable((path) => parsers.claims(path), allowed.map(allowedPath));
}

/** Counts what the proxy reports. */
class CountingMetrics implements ProxyMetrics {
  refused = 0;
  bad: string[] = [];
  retries: AttemptFailure[] = [];
  gone = 0;
  lost = 0;
  connectionRefused(): void {
    this.refused++;
  }
  badRequest(slug: string): void {
    this.bad.push(slug);
  }
  retried(cause: AttemptFailure): void {
    this.retries.push(cause);
  }
  clientGone(): void {
    this.gone++;
  }
  interrupted(): void {
    this.lost++;
  }
}

/** Everything one test opened, closed together in `close`. */
export class ProxyHarness {
  readonly exchanges: FakeExchange[] = [];
  readonly errors: unknown[] = [];
  readonly metrics = new CountingMetrics();
  readonly #clients: RawClient[] = [];
  readonly #servers: RawServer[] = [];
  #proxy: RunningProxy | undefined;

  get proxy(): RunningProxy {
    return this.#proxy!;
  }

  /** The exchange opened last. */
  get exchange(): FakeExchange {
    return this.exchanges.at(-1)!;
  }

  async start(plan: FakePlan = {}, options: Partial<ProxyOptions> = {}): Promise<this> {
    this.#proxy = await startProxy({
      listeners: [{ host: "127.0.0.1", port: 0 }],
      clock: realClock,
      random: new SeededRandom(1),
      metrics: this.metrics,
      onError: (error) => this.errors.push(error),
      openExchange: (wire) => {
        const exchange = new FakeExchange(plan, wire);
        this.exchanges.push(exchange);
        return exchange;
      },
      // Many tests ask for the root: to them, a path is a path.
      paths: pathTable("/"),
      ...options,
      // By a clock that runs on while this process stands still, a connection may take long.
      timers: { ...(options.clock === undefined && { connect: fixedLimit(2000) }), ...options.timers },
    });
    return this;
  }

  /** A model server that answers with the bytes `answer` writes. */
  async model(answer: (request: RawRequest) => void): Promise<RawServer & { endpoint: Endpoint }> {
    const server = await rawServer(answer);
    this.#servers.push(server);
    return Object.assign(server, { endpoint: loopbackEndpoint(server.port) });
  }

  /** A client of the proxy. */
  async client(options: { paused?: boolean } = {}): Promise<RawClient> {
    const client = await rawClient(this.proxy.port, options);
    this.#clients.push(client);
    return client;
  }

  /** Sends bytes over a connection of their own and waits until the proxy ends it. */
  async ask(bytes: string | Buffer): Promise<string> {
    const client = await this.client();
    client.send(bytes);
    await poll("the proxy ends the connection", client.closed);
    return client.text();
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.socket.destroy();
    await this.#proxy?.close();
    await Promise.all(this.#servers.map((server) => server.close()));
  }
}

/** An endpoint nobody listens on. */
export async function deadEndpoint(): Promise<Endpoint> {
  return loopbackEndpoint(await deadPort());
}

/** A POST of `body`; the connection ends with its answer unless told otherwise. */
export function post(body: string, headers = "connection: close\r\n"): string {
  return `POST /v1/completions HTTP/1.1\r\nhost: gw\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** A GET; the connection ends with its answer unless told otherwise. */
export function get(path = "/v1/models", headers = "connection: close\r\n", method = "GET"): string {
  return `${method} ${path} HTTP/1.1\r\nhost: gw\r\n${headers}\r\n`;
}
