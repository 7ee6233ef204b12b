import { hostPort } from "../../base/inference/endpoint.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { EndpointSpec } from "../endpoints/pool-endpoint.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { ServedModels } from "../endpoints/served-models.ts";

/** The registry, as a discovery sees it. */
export type DiscoveredPool = Pick<EndpointRegistry, "apply" | "size" | "maxEndpoints">;

/** A discovery that runs: it fills the pool until it is closed. The endpoints stay. */
export interface RunningDiscovery {
  /** Begins with the first answer. @throws SluiceError when there is none; the pool is then as before */
  start(): Promise<void>;
  close(): void;
}

/** What a discovery gives to each endpoint that it finds. */
export interface EndpointTraits {
  readonly labels: Readonly<Record<string, string>>;
  /** Undefined = the server is asked. */
  readonly models?: ServedModels | undefined;
}

/** The endpoint at an address that a discovery has found. Address and port are its name, so it stays the same endpoint. */
export function foundEndpoint(address: string, port: number, { labels, models }: EndpointTraits): EndpointSpec {
  const spec = { namespace: "default", name: hostPort(address, port), address, port, rank: 0, labels };
  return models === undefined ? spec : { ...spec, models };
}

/** Puts endpoints into a pool, and logs what changed. */
export class PoolFiller {
  readonly #pool: DiscoveredPool;
  readonly #log: Logger;
  readonly #source: string;
  #told = false;

  /** @param source for the log: "DNS", or a file */
  constructor(pool: DiscoveredPool, log: Logger, source: string) {
    this.#pool = pool;
    this.#log = log;
    this.#source = source;
  }

  fill(specs: readonly EndpointSpec[]): void {
    const { added, removed, refused } = this.#pool.apply(specs);
    const isNews = added + removed + refused > 0 || !this.#told;
    this.#told = true;
    const { size: endpoints, maxEndpoints } = this.#pool;
    if (isNews) this.#log.info({ source: this.#source, endpoints, added, removed }, "discovery updated the endpoints");
    if (refused > 0)
      this.#log.warn(
        { source: this.#source, refused, maxEndpoints },
        "too many endpoints: Sluice ignores the last ones",
      );
  }
}
