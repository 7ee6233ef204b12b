import { type InFlightLoad, NO_LOAD } from "../../base/inference/endpoint.ts";
import type { PeerPart, PoolEndpoint } from "../endpoints/pool-endpoint.ts";

/** When a replica was last heard. */
export interface Heard {
  /** Monotonic milliseconds of this process. */
  readonly heardAt: number;
}

/** How far this process is behind its peers. */
export interface PeerPace {
  /** Peers that live and have had traffic in the last minute, or are new. */
  busy: number;
  /** Milliseconds from a request of a peer until this process knows of it. */
  lagMs: number;
  /** Means over the requests of this process: tokens to compute, and their squares. */
  tokens: number;
  squares: number;
  /** Requests of this process in the last lag, at all endpoints; older ones count less and less. And when the last one was sent. */
  recent: number;
  sentAt: number;
  /** Computed once for each moment. */
  trust: number;
  trustedAt: number;
}

/** After as many lags nothing is left to expect: 2 % of it. */
const LAGS = 4;
/**
 * Requests of this process in a lag with which they say half of what its peers send: a few requests are chance, and many a burst.
 */
const DOUBT = 8;
/** The part of the means that each request has. */
const NEW_PART = 1 / 256;
/** The most tokens of a lean: one point of the default profile, so that load and prefixes still decide. */
const MOST_LEAN = 16_384;
const LEAST_LEAN = 1;

/** How much the last requests of this process say of those of its peers, 0 to 1. */
function trust(pace: PeerPace, now: number): number {
  if (pace.trustedAt !== now) {
    pace.trustedAt = now;
    const all = pace.recent * Math.exp((pace.sentAt - now) / pace.lagMs);
    pace.trust = all / (all + DOUBT);
  }
  return pace.trust;
}

/** What all peers together have in flight at one address. `PeerTable` changes it, and `InFlight` tells what this process sends. */
export class SharedLoad implements PeerPart {
  /** `address:port`. */
  readonly key: string;
  requests = 0;
  tokens = 0;
  /** The endpoints of this process with that address; usually one. */
  readonly endpoints = new Set<PoolEndpoint>();
  /** Other replicas leave the endpoint to this one, while nothing speaks for it. `PeerTable` deals the endpoints out. */
  isHome = true;
  readonly #pace: PeerPace;
  /** The replicas that have load here. */
  readonly #sources: Heard[] = [];
  /** What this process has sent here in the last lag; older requests count less and less. */
  #recent = 0;
  #recentTokens = 0;
  #sentAt = 0;
  readonly #unseen = { requests: 0, tokens: 0 };

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

  /**
   * The prompt that a request waits for, if a peer has just sent one that this process does not know of: long prompts make others wait
   * longer, and so they weigh by their length. Before the first prompt, it is just enough to decide between equals.
   */
  get lean(): number {
    const { busy, tokens, squares } = this.#pace;
    if (this.isHome || busy === 0) return 0;
    return tokens === 0 ? LEAST_LEAN : Math.min(MOST_LEAN, squares / tokens);
  }

  sent(tokens: number, now: number): void {
    const pace = this.#pace;
    pace.tokens += (tokens - pace.tokens) * NEW_PART;
    pace.squares += (tokens * tokens - pace.squares) * NEW_PART;
    pace.recent = pace.recent * Math.exp((pace.sentAt - now) / pace.lagMs) + 1;
    pace.sentAt = now;
    pace.trustedAt = Number.NaN;
    const kept = Math.exp((this.#sentAt - now) / pace.lagMs);
    this.#recent = this.#recent * kept + 1;
    this.#recentTokens = this.#recentTokens * kept + tokens;
    this.#sentAt = now;
  }

  unseen(now: number): InFlightLoad {
    const { busy, lagMs } = this.#pace;
    const lags = (now - this.#sentAt) / lagMs;
    if (busy === 0 || this.#recent === 0 || lags > LAGS) return NO_LOAD;
    const share = busy * Math.exp(-lags) * trust(this.#pace, now);
    this.#unseen.requests = share * this.#recent;
    this.#unseen.tokens = share * this.#recentTokens;
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
