import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { type Flow, type FlowLoad, FlowLoads } from "./flow-loads.ts";
import { InFlightCounts, type PeerPart, PoolEndpoint } from "./pool-endpoint.ts";

/**
 * The load that this process has sent and that has not ended, per endpoint (scheduling 3.12). This load figure is never old.
 * Counts are in the endpoint object itself: they outlast its removal, and an endpoint that comes back starts at zero.
 *
 * Where replicas share their load, decisions see the sum of the own part and of the part of the peers, as the peers said last.
 */
export class InFlight {
  /** The same by flow, for requests that name theirs. */
  readonly flows = new FlowLoads();
  readonly #clock: Clock;
  readonly #onFirst: (endpoint: PoolEndpoint) => void;
  #onOwn: (() => void) | undefined;

  /** @param onFirst called when an endpoint gets a request while it had none */
  constructor(clock: Clock, onFirst: (endpoint: PoolEndpoint) => void) {
    this.#clock = clock;
    this.#onFirst = onFirst;
  }

  /**
   * Counts one routed exchange at `endpoint`, before any other decision.
   * @param tokens prompt tokens that the endpoint has to compute; any value but a positive finite number counts as 0
   * @param flow the flow of the request, where `flows` should show it
   */
  open(endpoint: Endpoint, tokens: number, flow?: Flow): InFlightTicket {
    return new InFlightTicket(this, endpoint, tokens, flow);
  }

  /** Replicas share their load from now on. @param onOwn called after each change of the part of this process */
  share(onOwn: () => void): void {
    this.#onOwn = onOwn;
  }

  /** Counts the load of `peers` at the endpoint from now on, beside its own. */
  addPeers(endpoint: PoolEndpoint, peers: PeerPart): void {
    const own = new InFlightCounts();
    own.requests = endpoint.own.requests;
    own.tokens = endpoint.own.tokens;
    endpoint.own = own;
    endpoint.peers = peers;
    this.peersChanged(endpoint, peers.requests, peers.tokens);
  }

  /**
   * The load of the peers at the endpoint has changed.
   * @param requests rise of one peer, negative = fall. A rise is unscraped load: the next metrics page shows it, and the last one
   *   may not. What a peer sends and what ends in the same time cancel out, so this figure is the least that it sent
   */
  peersChanged(endpoint: PoolEndpoint, requests: number, tokens: number): void {
    const before = endpoint.inFlight.requests;
    if (requests > 0) endpoint.unscraped.requests += requests;
    if (tokens > 0) endpoint.unscraped.tokens += tokens;
    addUp(endpoint);
    const after = endpoint.inFlight.requests;
    if (before === 0 && after > 0) this.#onFirst(endpoint);
    else if (before > 0 && after === 0) endpoint.lastTrafficAt = this.#clock.now();
  }

  /** For `InFlightTicket`. */
  enter(endpoint: PoolEndpoint, tokens: number): void {
    const { own } = endpoint;
    own.tokens += tokens;
    own.requests++;
    endpoint.unscraped.requests++;
    endpoint.unscraped.tokens += tokens;
    endpoint.peers?.sent(tokens, this.#clock.now());
    this.#ownChanged(endpoint);
    if (endpoint.inFlight.requests === 1) this.#onFirst(endpoint);
  }

  /** For `InFlightTicket`. */
  leave(endpoint: PoolEndpoint, tokens: number): void {
    leave(endpoint.own, tokens);
    this.#ownChanged(endpoint);
    if (endpoint.inFlight.requests === 0) endpoint.lastTrafficAt = this.#clock.now();
  }

  /** For `InFlightTicket`. */
  giveBack(endpoint: PoolEndpoint, tokens: number): void {
    giveBack(endpoint.own, tokens);
    this.#ownChanged(endpoint);
  }

  #ownChanged(endpoint: PoolEndpoint): void {
    if (endpoint.own !== endpoint.inFlight) addUp(endpoint);
    this.#onOwn?.();
  }
}

/** Added up anew each time, so that rounding errors of estimates do not stay. */
function addUp({ inFlight, own, peers }: PoolEndpoint): void {
  inFlight.requests = own.requests + (peers?.requests ?? 0);
  inFlight.tokens = own.tokens + (peers?.tokens ?? 0);
}

/** One exchange's share of an endpoint's load, from routing to its end. */
export class InFlightTicket {
  readonly #load: InFlight;
  /** Undefined once released, and for endpoints that no registry made. */
  #endpoint: PoolEndpoint | undefined;
  #tokens = 0;
  readonly #flow: Flow | undefined;
  #flowLoad: FlowLoad | undefined;
  #released = false;

  constructor(load: InFlight, endpoint: Endpoint, tokens: number, flow: Flow | undefined) {
    this.#load = load;
    this.#flow = flow;
    this.#enter(endpoint, tokens);
  }

  /**
   * The exchange goes to another endpoint, and its count moves there.
   * @param tokens prompt tokens that the new endpoint has to compute
   */
  moveTo(endpoint: Endpoint, tokens: number): void {
    if (this.#released) return;
    this.#leave();
    this.#enter(endpoint, tokens);
  }

  /** The first byte of the answer has arrived, so the prompt is computed: gives the token share back. */
  firstResponseByte(): void {
    if (this.#endpoint === undefined || this.#tokens === 0) return;
    this.#load.giveBack(this.#endpoint, this.#tokens);
    if (this.#flowLoad !== undefined) giveBack(this.#flowLoad, this.#tokens);
    this.#tokens = 0;
  }

  /** The exchange has ended. Counts once; later calls do nothing. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#leave();
  }

  #enter(endpoint: Endpoint, tokens: number): void {
    this.#tokens = share(tokens);
    this.#endpoint = owned(endpoint);
    if (this.#endpoint === undefined) return;
    this.#load.enter(this.#endpoint, this.#tokens);
    if (this.#flow !== undefined && !this.#endpoint.removed)
      this.#flowLoad = this.#load.flows.enter(this.#endpoint, this.#flow, this.#tokens);
  }

  #leave(): void {
    if (this.#endpoint !== undefined) this.#load.leave(this.#endpoint, this.#tokens);
    if (this.#flowLoad !== undefined) leave(this.#flowLoad, this.#tokens);
    this.#endpoint = undefined;
    this.#flowLoad = undefined;
  }
}

function leave(counts: InFlightCounts, tokens: number): void {
  counts.requests = Math.max(0, counts.requests - 1);
  if (counts.requests > 0) giveBack(counts, tokens);
  // Set to exactly zero again, because rounding errors of estimates must not add up over a day.
  else counts.tokens = 0;
}

function giveBack(counts: InFlightCounts, tokens: number): void {
  counts.tokens = Math.max(0, counts.tokens - tokens);
}

function owned(endpoint: Endpoint): PoolEndpoint | undefined {
  return endpoint instanceof PoolEndpoint ? endpoint : undefined;
}

function share(tokens: number): number {
  return tokens > 0 && tokens !== Number.POSITIVE_INFINITY ? tokens : 0;
}
