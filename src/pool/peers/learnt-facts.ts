import type { Clock } from "../../base/clock/clock.ts";
import type { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import { addressKey } from "../endpoints/address.ts";
import type { PoolEndpoint } from "../endpoints/pool-endpoint.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { PeerFacts } from "./message.ts";

export interface LearntFactsParts {
  readonly clock: Clock;
  readonly registry: EndpointRegistry;
  readonly bytesPerToken: BytesPerToken | undefined;
}

/**
 * What this replica has learnt about servers and models, for its peers, and what they have learnt. Own knowledge always counts
 * more: a fact of a peer has an effect only where this replica knows nothing, or knows nothing as new.
 */
export class LearntFacts {
  readonly #parts: LearntFactsParts;
  /** Endpoints that only a peer could not reach, and since when they are down here. They are not passed on. */
  readonly #told = new WeakMap<PoolEndpoint, number>();

  constructor(parts: LearntFactsParts) {
    this.#parts = parts;
  }

  /** What this replica has learnt itself. */
  own(): PeerFacts {
    const { clock, registry, bytesPerToken } = this.#parts;
    const now = clock.now();
    const down: PeerFacts["down"][number][] = [];
    const capacities: PeerFacts["capacities"][number][] = [];
    for (const endpoint of registry.list()) {
      if (endpoint.state === "down" && !this.#isTold(endpoint))
        down.push({ key: addressKey(endpoint), forMs: now - endpoint.since });
      const { seen } = endpoint.unscraped;
      if (seen > 0) capacities.push({ key: addressKey(endpoint), requests: seen });
    }
    return { down, capacities, bytesPerToken: bytesPerToken?.list() ?? [] };
  }

  /** Takes what a peer has learnt. @param now monotonic milliseconds */
  hear({ down, capacities, bytesPerToken }: PeerFacts, now: number): void {
    const { registry } = this.#parts;
    for (const { key, requests } of capacities) registry.byHostPort(key)?.unscraped.told(requests);
    for (const { model, bytesPerToken: figure } of bytesPerToken) this.#parts.bytesPerToken?.told(model, figure);
    // A peer that cannot reach most of the pool has lost its own network.
    if (down.length * 2 > registry.size) return;
    for (const { key, forMs } of down) {
      const endpoint = registry.byHostPort(key);
      if (endpoint === undefined || endpoint.state === "down" || knewAt(endpoint) >= now - forMs) continue;
      registry.states.unreachableForPeer(endpoint);
      this.#told.set(endpoint, endpoint.since);
    }
  }

  #isTold(endpoint: PoolEndpoint): boolean {
    // After a failed try of its own, this replica knows it itself.
    return this.#told.get(endpoint) === endpoint.since && endpoint.failures <= 1;
  }
}

/** Monotonic milliseconds at which this replica last knew that the endpoint can be reached. */
function knewAt({ metrics, since, state, lastTrafficAt }: PoolEndpoint): number {
  // An endpoint counts as up before anybody has tried it.
  if (state === "up" && metrics.scrapedAt === Number.NEGATIVE_INFINITY) return lastTrafficAt;
  return Math.max(metrics.scrapedAt, since);
}
