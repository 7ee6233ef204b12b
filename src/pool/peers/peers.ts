import type { Clock, Timer } from "../../base/clock/clock.ts";
import { expireAfter } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { SharedPrefixes } from "../../base/plugin/shared-prefixes.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { addressKey } from "../endpoints/address.ts";
import type { PoolEndpoint } from "../endpoints/pool-endpoint.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import { type ClusterMark, clusterMark, decodeLoad, encodeLoad, hashKeys } from "./codec.ts";
import { LearntFacts } from "./learnt-facts.ts";
import { type EndpointLoad, type PeerRefusal, REFUSALS, type Sender } from "./message.ts";
import { PeerTable } from "./peer-table.ts";
import { PlacedLog } from "./placed-log.ts";
import { Publisher } from "./publisher.ts";
import type { SharedLoad } from "./shared-load.ts";
import type { PeerReceiver, PeerTransport } from "./transport.ts";

/** What names the pool whose replicas share what they know. */
export interface PeerIdentity {
  /** Equal in all replicas and different in any other pool that uses the same store, such as `default/llama`. */
  readonly cluster: string;
  /** Known to the replicas alone: it salts the block hashes. "" = none. */
  readonly secret: string;
}

export interface PeersParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly identity: PeerIdentity;
  readonly transport: PeerTransport;
  readonly registry: EndpointRegistry;
  /** Undefined where the bytes per token are not learnt. */
  readonly bytesPerToken: BytesPerToken | undefined;
  /** Called after the load of peers has changed: requests that wait may find room. */
  onLoad?(): void;
}

/**
 * How far this replica knows what its peers know. `connecting`: the store was never reached. `catching-up`: the store is there, and
 * the log is being read. `in-step`: news come as they happen. `away`: the store was lost, so peers are forgotten after 3 s.
 */
export type PeersState = "connecting" | "catching-up" | "in-step" | "away" | "closed";
type PeersEvent = "up" | "read" | "lost" | "close";

export const PEERS_STATES: Readonly<Record<PeersState, Readonly<Record<PeersEvent, PeersState>>>> = {
  connecting: { up: "catching-up", read: "connecting", lost: "connecting", close: "closed" },
  "catching-up": { up: "catching-up", read: "in-step", lost: "away", close: "closed" },
  "in-step": { up: "catching-up", read: "in-step", lost: "away", close: "closed" },
  away: { up: "catching-up", read: "away", lost: "away", close: "closed" },
  closed: { up: "closed", read: "closed", lost: "closed", close: "closed" },
};

/** The least milliseconds between two warnings about one kind of refused messages. */
const WARNING_INTERVAL = 60_000;

const REFUSAL_WORDS: Readonly<Partial<Record<PeerRefusal, string>>> = {
  garbage: "this replica ignores a peer's message that it cannot read: does another program write to these keys?",
  version: "this replica cannot read the messages of a peer of another release, so the two know nothing of each other",
  cluster:
    "another pool, or a replica with another secret, uses the same keys of the store; this replica ignores its messages",
  crowded: "there are too many replicas: this replica ignores the messages of some",
  excess:
    "the other replicas place more blocks than this replica can read, so it does not know where some prompts are cached: split the pool",
};

/**
 * The part of a picker that shares what it knows with its replicas: loads in flight, what decisions placed, and facts about servers
 * and models. Works on what it has: without a store, or without peers, decisions see the own load alone, as ever.
 */
export class Peers implements PeerReceiver {
  /** Who this replica is, in its messages. */
  readonly self: Pick<Sender, "id" | "epoch">;
  readonly table: PeerTable;
  readonly placedLog: PlacedLog;
  /** Why messages did not count, and how many. */
  readonly refused: Record<PeerRefusal, number>;
  state: PeersState = "connecting";
  /** Why the store is away; "" = it is not. */
  reason = "";
  readonly #parts: PeersParts;
  readonly #cluster: ClusterMark;
  readonly #facts: LearntFacts;
  readonly #publisher: Publisher;
  readonly #warnedAt = new Map<PeerRefusal, number>();
  #sequence = 0;
  #sentAt = 0;
  #factsDue = true;
  #expiry: Timer | undefined;
  #unsubscribe: (() => void)[] = [];

  constructor(parts: PeersParts) {
    const { clock, random, registry, identity, transport, bytesPerToken } = parts;
    this.#parts = parts;
    this.self = { id: hexId(random), epoch: Math.floor(clock.wall()) * 1024 + random.below(1024) };
    this.refused = Object.fromEntries(REFUSALS.map((why) => [why, 0])) as Record<PeerRefusal, number>;
    this.#cluster = clusterMark(identity.cluster, identity.secret);
    this.table = new PeerTable(this.self.id, (shared, requests, tokens) => this.#loadChanged(shared, requests, tokens));
    this.placedLog = new PlacedLog({
      ...{ clock, random, registry, cluster: this.#cluster, self: this.self },
      hashKeys: hashKeys(identity.cluster, identity.secret),
      append: (message) => transport.appendPlaced(message),
    });
    this.#facts = new LearntFacts({ clock, registry, bytesPerToken });
    this.#publisher = new Publisher(clock, (reason) => this.#publish(reason === "heartbeat"));
    registry.inFlight.share(() => this.#publisher.changed());
    for (const endpoint of registry.list()) this.#added(endpoint);
    this.table.dealOut();
    this.#unsubscribe = [
      registry.onAdded((endpoint) => {
        this.#added(endpoint);
        this.table.dealOut();
      }),
      registry.onRemoved((endpoint) => this.#removed(endpoint)),
      registry.onStateChanged(() => {
        this.#factsDue = true;
        this.#publisher.changed();
      }),
    ];
  }

  /** Where producers of prefix knowledge meet those of the other replicas. */
  get prefixes(): SharedPrefixes {
    return this.placedLog;
  }

  /** Connects, and sends from now on. Call it once. */
  start(): void {
    this.#parts.transport.start(this);
    this.placedLog.start();
    this.#publisher.start();
  }

  /** Tells the peers that this replica has no load any more, and ends the connections. */
  async close(): Promise<void> {
    if (this.state === "closed") return;
    this.placedLog.close();
    this.#publisher.close();
    this.#send([], false);
    this.#move("close");
    this.#expiry?.cancel();
    for (const end of this.#unsubscribe) end();
    await this.#parts.transport.close();
  }

  load(message: Uint8Array, ageMs = 0): void {
    const refusal = this.#hear(message, ageMs);
    if (refusal !== undefined) this.#refuse(refusal);
  }

  placed(message: Uint8Array): void {
    const refusal = this.placedLog.hear(message, this.state === "in-step");
    if (refusal !== undefined) this.#refuse(refusal);
  }

  connection(up: boolean, reason = ""): void {
    this.#move(up ? "up" : "lost");
    this.reason = up ? "" : reason;
    // A store that lost its data, and peers that forgot this replica, hear of it at once.
    this.#factsDue = true;
    if (up) this.#publisher.changed();
  }

  caughtUp(): void {
    this.#move("read");
  }

  #hear(message: Uint8Array, ageMs: number): PeerRefusal | undefined {
    const read = decodeLoad(this.#cluster, message);
    if (typeof read === "string") return read;
    const now = this.#parts.clock.now();
    if (read.id === this.self.id) {
      if (ageMs === 0 && read.epoch === this.self.epoch && read.sequence === this.#sequence)
        this.table.pace.came(now - this.#sentAt);
      return "own";
    }
    this.#expire();
    const refusal = this.table.hear(read, now - ageMs);
    if (refusal !== undefined) return refusal;
    if (read.facts !== undefined) this.#facts.hear(read.facts, now);
    this.#parts.onLoad?.();
    if (this.#expiry === undefined || ageMs > 0) this.#armExpiry();
    return undefined;
  }

  #move(event: PeersEvent): void {
    this.state = PEERS_STATES[this.state][event];
  }

  #added(endpoint: PoolEndpoint): void {
    const shared = this.table.loadAt(addressKey(endpoint));
    shared.endpoints.add(endpoint);
    this.#parts.registry.inFlight.addPeers(endpoint, shared);
    this.placedLog.endpointAdded(endpoint);
  }

  #removed(endpoint: PoolEndpoint): void {
    const shared = this.table.loadAt(addressKey(endpoint));
    shared.endpoints.delete(endpoint);
    this.table.release(shared);
    this.table.dealOut();
  }

  #loadChanged({ endpoints }: SharedLoad, requests: number, tokens: number): void {
    for (const endpoint of endpoints) this.#parts.registry.inFlight.peersChanged(endpoint, requests, tokens);
  }

  #publish(isHeartbeat: boolean): void {
    const loads: EndpointLoad[] = [];
    for (const endpoint of this.#parts.registry.list()) {
      const { requests, tokens } = endpoint.own;
      if (requests > 0) loads.push({ key: endpoint.peers?.key ?? addressKey(endpoint), requests, tokens });
    }
    this.#send(loads, isHeartbeat || this.#factsDue);
    this.#factsDue = false;
  }

  #send(loads: readonly EndpointLoad[], withFacts: boolean): void {
    const facts = withFacts ? this.#facts.own() : undefined;
    const message = encodeLoad(this.#cluster, { ...this.self, sequence: ++this.#sequence, loads, facts });
    this.#sentAt = this.#parts.clock.now();
    this.#parts.transport.publishLoad(message);
  }

  #expire(): void {
    if (this.table.expire(this.#parts.clock.now()) > 0) this.#parts.onLoad?.();
  }

  /** A pause of this process must not make its peers look silent: what waits in the sockets is read first. */
  #armExpiry(): void {
    const { clock } = this.#parts;
    this.#expiry?.cancel();
    this.#expiry = undefined;
    const at = this.table.nextExpiry;
    if (at === Number.POSITIVE_INFINITY || this.state === "closed") return;
    this.#expiry = expireAfter(
      clock,
      at - clock.now(),
      () => {
        this.#expiry = undefined;
        this.#expire();
        this.#armExpiry();
      },
      true,
    );
  }

  #refuse(why: PeerRefusal): void {
    this.refused[why]++;
    const words = REFUSAL_WORDS[why];
    if (words === undefined) return;
    const now = this.#parts.clock.now();
    if (now - (this.#warnedAt.get(why) ?? Number.NEGATIVE_INFINITY) < WARNING_INTERVAL) return;
    this.#warnedAt.set(why, now);
    this.#parts.log.warn({ refusal: why, messages: this.refused[why] }, words);
  }
}

/** 64 random bits as hexadecimal digits. */
function hexId(random: Random): string {
  let id = "";
  for (let i = 0; i < 4; i++) id += random.below(0x10000).toString(16).padStart(4, "0");
  return id;
}
