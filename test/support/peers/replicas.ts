import type { Clock } from "../../../src/base/clock/clock.ts";
import { type Random, SeededRandom } from "../../../src/base/clock/random.ts";
import { BytesPerToken } from "../../../src/base/inference/bytes-per-token.ts";
import { type Logger, silentLogger } from "../../../src/base/telemetry/logger.ts";
import type { InFlightTicket } from "../../../src/pool/endpoints/in-flight.ts";
import type { PoolEndpoint } from "../../../src/pool/endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../../../src/pool/endpoints/registry.ts";
import { Peers } from "../../../src/pool/peers/peers.ts";
import type { PeerReceiver, PeerTransport } from "../../../src/pool/peers/transport.ts";

/** How a store treats one delivery: milliseconds until each copy arrives; an empty list = it is lost. */
export type Fate = () => readonly number[];

/** A store without sockets that delays, loses, repeats and mixes messages as `fate` says. */
export class FakeStore {
  fate: Fate = () => [0];
  readonly loads: Uint8Array[] = [];
  readonly log: Uint8Array[] = [];
  readonly #clock: Clock;
  readonly #receivers = new Set<PeerReceiver>();
  readonly #dead = new Set<PeerReceiver | undefined>();
  readonly #cut = new Set<PeerReceiver | undefined>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  connect(): PeerTransport {
    let own: PeerReceiver | undefined;
    return {
      publishLoad: (message) => {
        if (this.#dead.has(own) || this.#cut.has(own)) return;
        this.loads.push(message);
        this.#spread((receiver) => receiver.load(message));
      },
      appendPlaced: (message) => {
        if (this.#dead.has(own) || this.#cut.has(own)) return;
        this.log.push(message);
        this.#spread((receiver) => receiver.placed(message));
      },
      start: (receiver) => {
        own = receiver;
        this.#receivers.add(receiver);
        receiver.connection(true);
        for (const message of this.log) receiver.placed(message);
        receiver.caughtUp();
      },
      close: async () => {
        if (own !== undefined) this.#receivers.delete(own);
      },
    };
  }

  /** Delivers a message to all, as it is. */
  inject(message: Uint8Array, kind: "load" | "placed" = "load"): void {
    for (const receiver of this.#receivers) receiver[kind](message);
  }

  /** The process of a replica is gone: nothing of it is sent any more, and nothing arrives there. */
  kill(receiver: PeerReceiver): void {
    this.#receivers.delete(receiver);
    this.#dead.add(receiver);
  }

  /** Nothing of a replica passes any more, in either direction, until `false`. @param told whether it learns of that */
  cut(receiver: PeerReceiver, on: boolean, told: boolean): void {
    if (on) this.#cut.add(receiver);
    else this.#cut.delete(receiver);
    if (!told) return;
    receiver.connection(!on, "the connection ended");
    if (!on) receiver.caughtUp();
  }

  #spread(deliver: (receiver: PeerReceiver) => void): void {
    const arrive = (receiver: PeerReceiver): void => {
      if (this.#receivers.has(receiver) && !this.#cut.has(receiver)) deliver(receiver);
    };
    for (const receiver of this.#receivers)
      for (const ms of this.fate()) {
        if (ms === 0) arrive(receiver);
        else this.#clock.after(ms, () => arrive(receiver));
      }
  }
}

/** One replica: a pool, its part of the sharing, and what it has in flight. */
export class TestReplica {
  readonly registry: EndpointRegistry;
  readonly bytesPerToken = new BytesPerToken();
  readonly peers: Peers;
  readonly open: { readonly ticket: InFlightTicket; readonly at: number }[] = [];

  constructor(
    store: { connect(): PeerTransport },
    clock: Clock,
    {
      seed = 1,
      endpoints = 3,
      cluster = "pool",
      secret = "",
      log = silentLogger,
      random = new SeededRandom(seed),
    }: {
      seed?: number;
      endpoints?: number;
      cluster?: string;
      secret?: string;
      log?: Logger;
      random?: Random;
    } = {},
  ) {
    this.registry = new EndpointRegistry({ clock, random });
    for (let i = 0; i < endpoints; i++) this.add(i);
    this.peers = new Peers({
      ...{ clock, random, log, registry: this.registry, bytesPerToken: this.bytesPerToken },
      identity: { cluster, secret },
      transport: store.connect(),
    });
  }

  add(i: number): PoolEndpoint {
    const spec = { namespace: "default", name: `e${i}`, address: `10.0.0.${i}`, port: 8000, rank: 0, labels: {} };
    return this.registry.upsert(spec)!;
  }

  at(i: number): PoolEndpoint {
    return this.registry.get(`default/e${i}`)!;
  }

  /** Sends a request to the endpoint of that number. */
  send(i: number, tokens = 10): void {
    this.open.push({ ticket: this.registry.inFlight.open(this.at(i), tokens), at: i });
  }

  /** Ends the request with that place among the open ones. */
  end(place: number): void {
    const [ended] = this.open.splice(place % Math.max(1, this.open.length), 1);
    ended?.ticket.release();
  }

  /** Requests of this replica by endpoint. */
  own(): number[] {
    return this.registry.list().map(({ own }) => own.requests);
  }

  /** Requests that decisions see by endpoint. */
  seen(): number[] {
    return this.registry.list().map(({ inFlight }) => inFlight.requests);
  }
}
