import { connect } from "node:net";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointRegistry } from "./registry.ts";

/** Milliseconds for one connection, as for a scrape. */
const TIMEOUT = 1000;

/**
 * Serves a pool without scrapes. When the back-off of an endpoint that a request found dead is over, it tries a bare
 * connection. The endpoint is back when it accepts one. Otherwise no request would try it again while others serve.
 */
export class Reconnector {
  readonly #clock: Clock;
  readonly #registry: EndpointRegistry;
  /** The wait or the connection under way of each down endpoint, to be stopped. */
  readonly #open = new Map<PoolEndpoint, () => void>();
  readonly #unsubscribe: readonly (() => void)[];

  constructor(clock: Clock, registry: EndpointRegistry) {
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
    const socket = connect(endpoint.port, endpoint.address);
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
    socket.on("connect", () => states.connected(endpoint));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      failed("connect", messageOf(error) || (error.code ?? "failed")),
    );
  }
}
