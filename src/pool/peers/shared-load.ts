import { type InFlightLoad, NO_LEAN, NO_LOAD, type PeerLean } from "../../base/inference/endpoint.ts";
import type { PeerPart, PoolEndpoint } from "../endpoints/pool-endpoint.ts";
import type { PeerPace, PlannedAddress } from "./peer-pace.ts";

/** When a replica was last heard. */
export interface Heard {
  /** Monotonic milliseconds of this process. */
  readonly heardAt: number;
}

/** After as many lags nothing is left to expect: 2 % of it. */
const LAGS = 4;

/** What all peers together have in flight at one address. `PeerTable` changes it, and `InFlight` tells what this process sends. */
export class SharedLoad implements PeerPart, PlannedAddress {
  /** `address:port`. */
  readonly key: string;
  requests = 0;
  tokens = 0;
  /** The endpoints of this process with that address; usually one. */
  readonly endpoints = new Set<PoolEndpoint>();
  /** Other replicas leave the endpoint to this one, while nothing speaks for it. `PeerTable` deals the endpoints out. */
  isHome = true;
  planned = 0;
  readonly #pace: PeerPace;
  /** The replicas that have load here. */
  readonly #sources: Heard[] = [];
  /** What this process has sent here in the last lag; older requests count less and less. */
  #recent = 0;
  #recentTokens = 0;
  #sentAt = 0;
  readonly #unseen = { requests: 0, tokens: 0 };
  #seenVersion = -1;

  constructor(key: string, pace: PeerPace) {
    this.key = key;
    this.#pace = pace;
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

  get lean(): PeerLean {
    return this.isHome || this.#pace.busy === 0 ? NO_LEAN : this.#pace.lean();
  }

  get known(): InFlightLoad {
    for (const { inFlight } of this.endpoints) return inFlight;
    return this;
  }

  sent(tokens: number, now: number): void {
    this.#pace.sent(tokens, now);
    const kept = Math.exp((this.#sentAt - now) / this.#pace.lagMs);
    this.#recent = this.#recent * kept + 1;
    this.#recentTokens = this.#recentTokens * kept + tokens;
    this.#sentAt = now;
  }

  unseen(now: number): InFlightLoad {
    const pace = this.#pace;
    if (pace.busy === 0) return NO_LOAD;
    const version = pace.version(now);
    // A decision asks more than once.
    if (version !== this.#seenVersion) {
      this.#seenVersion = version;
      const lags = (now - this.#sentAt) / pace.lagMs;
      const share = this.#recent === 0 || lags > LAGS ? 0 : pace.busy * Math.exp(-lags) * pace.trust;
      this.#unseen.requests = share * this.#recent + this.planned;
      this.#unseen.tokens = share * this.#recentTokens + this.planned * pace.tokens;
    }
    return this.#unseen;
  }

  enter(source: Heard): void {
    this.#sources.push(source);
  }

  leave(source: Heard): void {
    const at = this.#sources.indexOf(source);
    if (at >= 0) this.#sources.splice(at, 1);
  }
}
