import { connect } from "node:net";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { type ServerTls, serverTlsError } from "../../base/grpc/server-tls.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointRegistry } from "./registry.ts";

/** Milliseconds for one connection, its TLS included, as for a scrape. */
const TIMEOUT = 1000;

/**
 * Serves a pool without scrapes. When the back-off of an endpoint that a request found dead is over, it tries a bare
 * connection, with TLS where the endpoint speaks TLS. The endpoint is back when it accepts one. Otherwise no request would try it again while others serve.
 */
export class Reconnector {
  readonly #clock: Clock;
  readonly #tls: ServerTls | undefined;
  readonly #registry: EndpointRegistry;
  /** The wait or the connection under way of each down endpoint, to be stopped. */
  readonly #open = new Map<PoolEndpoint, () => void>();
  readonly #unsubscribe: readonly (() => void)[];

  /** @param tls undefined = no endpoint speaks TLS */
  constructor(clock: Clock, registry: EndpointRegistry, tls: ServerTls | undefined) {
    this.#tls = tls;
    this.#clock = clock;
    this.#registry = registry;
    this.#unsubscribe = [
      registry.onRemoved((endpoint) => this.#drop(endpoint)),
      registry.onStateChanged((endpoint) => {
        this.#drop(endpoint);
        if (endpoint.state === "down") this.#wait(endpoint);
      }),
    ];
  }

  /** Endpoints that wait or are being tried. */
  get size(): number {
    return this.#open.size;
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    for (const endpoint of [...this.#open.keys()]) this.#drop(endpoint);
  }

  #drop(endpoint: PoolEndpoint): void {
    this.#open.get(endpoint)?.();
    this.#open.delete(endpoint);
  }

  #wait(endpoint: PoolEndpoint): void {
    const timer = this.#clock.after(Math.max(0, endpoint.retryAt - this.#clock.now()), () => this.#try(endpoint), true);
    this.#open.set(endpoint, () => timer.cancel());
  }

  #try(endpoint: PoolEndpoint): void {
    const { states } = this.#registry;
    const place = { host: endpoint.address, port: endpoint.port };
    // A server whose certificate is wrong accepts connections, and no request.
    const tls = this.#tls?.secures(endpoint) === true ? this.#tls : undefined;
    const socket = tls === undefined ? connect(place) : tls.connect(place);
    let timer: Timer | undefined;
    const stop = (): void => {
      timer?.cancel();
      socket.removeAllListeners().on("error", () => {});
      socket.destroy();
    };
    const failed = (failure: "connect" | "timeout", detail: string): void => {
      stop();
      states.unreachable(endpoint, failure, detail, "check");
      this.#wait(endpoint);
    };
    timer = this.#clock.after(TIMEOUT, () => failed("timeout", `no answer within ${TIMEOUT} ms`), true);
    this.#open.set(endpoint, stop);
    socket.on(tls === undefined ? "connect" : "secureConnect", () => states.connected(endpoint));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      failed("connect", messageOf(tls === undefined ? error : serverTlsError(error)) || (error.code ?? "failed")),
    );
  }
}
