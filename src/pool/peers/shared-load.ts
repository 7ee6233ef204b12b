import type { PeerLoad } from "../../base/inference/endpoint.ts";
import type { PoolEndpoint } from "../endpoints/pool-endpoint.ts";

/** When a replica was last heard. */
export interface Heard {
  /** Monotonic milliseconds of this process. */
  readonly heardAt: number;
}

/** What all peers together have in flight at one address. `PeerTable` alone changes it. */
export class SharedLoad implements PeerLoad {
  /** `address:port`. */
  readonly key: string;
  requests = 0;
  tokens = 0;
  /** The endpoints of this process with that address; usually one. */
  readonly endpoints = new Set<PoolEndpoint>();
  /** The replicas that have load here. */
  readonly #sources: Heard[] = [];

  constructor(key: string) {
    this.key = key;
  }

  /** Nobody needs it: no replica has load here, and the pool has no such endpoint. */
  get isIdle(): boolean {
    return this.#sources.length === 0 && this.endpoints.size === 0;
  }

  ageMs(now: number): number {
    let oldest = now;
    for (const { heardAt } of this.#sources) if (heardAt < oldest) oldest = heardAt;
    return now - oldest;
  }

  enter(source: Heard): void {
    this.#sources.push(source);
  }

  leave(source: Heard): void {
    const at = this.#sources.indexOf(source);
    if (at >= 0) this.#sources.splice(at, 1);
  }
}
