import { type LoadMessage, MAX_ENDPOINTS, type PeerRefusal, SILENCE } from "./message.ts";
import { PeerPace } from "./peer-pace.ts";
import { REPLICA_STATES, Replica } from "./replica.ts";
import { SharedLoad } from "./shared-load.ts";
import { isHome } from "./unseen-plan.ts";

/** The most replicas that are known at a time; those that are gone make room first. */
export const MAX_REPLICAS = 64;
/** The most addresses with a load: twice a full pool, because pools change. */
const MAX_ADDRESSES = 2 * MAX_ENDPOINTS;
/** Milliseconds after which a silent replica is forgotten. */
const FORGET = 60_000;
/** Milliseconds without load after which a replica counts as one that gets no traffic; a new one gets as long. */
const QUIET = 60_000;

/** Called after the load of the peers at an address has changed. @param requests rise of one replica, negative = fall */
export type LoadChanged = (shared: SharedLoad, requests: number, tokens: number) => void;

/**
 * The other replicas of this picker and their loads. Each message states the whole load of its sender, so a lost one heals with
 * the next one. Order, repetition and restarts do not matter: the newest message of each living replica counts, and nothing else.
 * The time of a message is when this process read it, on its own monotonic clock: no clock of another machine counts.
 *
 * Bounds: 64 replicas and 8,192 addresses.
 */
export class PeerTable {
  readonly pace = new PeerPace();
  readonly #self: string;
  readonly #onChange: LoadChanged;
  /** The ids of the peers with traffic, and of new ones. The endpoints are dealt out among them and this replica. */
  readonly #busy = new Set<string>();
  readonly #replicas = new Map<string, Replica>();
  readonly #loads = new Map<string, SharedLoad>();
  #round = 0;
  /** Requests that the present message has more than the last one of its sender, at the addresses where it has more. */
  #risen = 0;
  #ignored = 0;

  /** @param self the id of this replica */
  constructor(self: string, onChange: LoadChanged) {
    this.#self = self;
    this.#onChange = onChange;
  }

  /** The known replicas, in the order in which they were first heard. */
  get replicas(): Iterable<Replica> {
    return this.#replicas.values();
  }

  /** The number of replicas that live. */
  get live(): number {
    let live = 0;
    for (const { state } of this.#replicas.values()) if (state === "live") live++;
    return live;
  }

  /** The number of addresses with a load, or with an endpoint that was asked for. */
  get addresses(): number {
    return this.#loads.size;
  }

  /** Loads of replicas that were left out, because there were too many addresses. */
  get ignored(): number {
    return this.#ignored;
  }

  replica(id: string): Replica | undefined {
    return this.#replicas.get(id);
  }

  /** The load of the peers at an address, for an endpoint of this process that is added to it. */
  loadAt(key: string): SharedLoad {
    return this.#loads.get(key) ?? this.#open(key);
  }

  /** Call it when an endpoint has left the load that `loadAt` gave. */
  release(shared: SharedLoad): void {
    if (shared.isIdle) this.#loads.delete(shared.key);
  }

  /**
   * Takes the load of a replica. Silent replicas must have been dropped before (`expire`).
   * @param now monotonic milliseconds at which the message was sent, as far as that is known
   * @returns why the message does not count, where it does not
   */
  hear(message: LoadMessage, now: number): PeerRefusal | undefined {
    const known = this.#replicas.get(message.id);
    if (known !== undefined && !known.isNews(message)) return "old";
    const replica = known ?? this.#admit(message, now);
    if (replica === undefined) return "crowded";
    const { loads } = message;
    replica.state = REPLICA_STATES[replica.state].news;
    replica.epoch = message.epoch;
    replica.sequence = message.sequence;
    replica.heardAt = now;
    replica.messages++;
    if (loads.length > 0) replica.busyAt = now;
    this.#round++;
    this.#risen = 0;
    let named = 0;
    for (const { key, requests, tokens } of loads) if (this.#set(replica, key, requests, tokens)) named++;
    if (named < replica.loads.size) this.#clear(replica);
    if (this.#risen > 0) this.pace.heard(this.#risen, now);
    this.#countBusy(now);
    return undefined;
  }

  /** Drops the loads of replicas that were silent for 3 s. @returns how many replicas fell silent */
  expire(now: number): number {
    let fell = 0;
    for (const replica of this.#replicas.values()) {
      const silent = now - replica.heardAt;
      if (silent >= SILENCE && replica.state === "live") {
        fell++;
        this.#drop(replica);
      }
    }
    if (fell > 0) this.#countBusy(now);
    // Only now: one that is forgotten as soon as it falls silent must not stay among the busy ones.
    for (const { id, heardAt } of this.#replicas.values()) if (now - heardAt >= FORGET) this.#replicas.delete(id);
    return fell;
  }

  /** Monotonic milliseconds at which `expire` has something to do; Infinity = never. */
  get nextExpiry(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { state, heardAt } of this.#replicas.values())
      next = Math.min(next, heardAt + (state === "live" ? SILENCE : FORGET));
    return next;
  }

  #countBusy(now: number): void {
    let changed = false;
    for (const replica of this.#replicas.values()) {
      const isBusy = replica.state === "live" && now - replica.busyAt <= QUIET;
      if (isBusy === this.#busy.has(replica.id)) continue;
      changed = true;
      if (isBusy) this.#busy.add(replica.id);
      else this.#busy.delete(replica.id);
    }
    if (!changed) return;
    this.pace.busy = this.#busy.size;
    this.dealOut();
  }

  /**
   * Deals the endpoints of the pool out to the replicas with traffic and the new ones, in the order of addresses and ids: all replicas
   * that know the same ones agree. Where there are more replicas than endpoints, several have the same home. Call it when the pool has changed.
   */
  dealOut(): void {
    const ids = [...this.#busy, this.#self].sort();
    const place = ids.indexOf(this.#self);
    const pool = [...this.#loads.values()].filter(({ endpoints }) => endpoints.size > 0);
    pool.sort((a, b) => (a.key < b.key ? -1 : 1));
    pool.forEach((shared, at) => {
      shared.isHome = isHome(at, place, ids.length, pool.length);
    });
    this.pace.self = place;
    this.pace.pool = pool;
  }

  #admit(message: LoadMessage, now: number): Replica | undefined {
    if (this.#replicas.size >= MAX_REPLICAS) {
      const gone = [...this.#replicas.values()].find(({ state }) => state === "gone");
      if (gone === undefined) return undefined;
      this.#replicas.delete(gone.id);
    }
    const replica = new Replica(message, now);
    this.#replicas.set(message.id, replica);
    return replica;
  }

  /** @returns whether it is the first load of this message at the address */
  #set(replica: Replica, key: string, requests: number, tokens: number): boolean {
    let held = replica.loads.get(key);
    if (held === undefined) {
      const shared = this.#loads.get(key) ?? (this.#loads.size < MAX_ADDRESSES ? this.#open(key) : undefined);
      if (shared === undefined) {
        this.#ignored++;
        return false;
      }
      held = { shared, requests: 0, tokens: 0, round: 0 };
      replica.loads.set(key, held);
      shared.enter(replica);
    }
    // Several endpoints may share an address: their loads add up.
    const again = held.round === this.#round;
    held.round = this.#round;
    const more = again ? requests : requests - held.requests;
    const moreTokens = again ? tokens : tokens - held.tokens;
    held.requests += more;
    held.tokens += moreTokens;
    this.#shift(held.shared, more, moreTokens);
    return !again;
  }

  /** Takes away the loads that the last message did not name. */
  #clear(replica: Replica): void {
    for (const [key, held] of replica.loads) {
      if (held.round === this.#round) continue;
      replica.loads.delete(key);
      held.shared.leave(replica);
      this.#shift(held.shared, -held.requests, -held.tokens);
      this.release(held.shared);
    }
  }

  #drop(replica: Replica): void {
    replica.state = REPLICA_STATES[replica.state].silence;
    this.#round++;
    this.#clear(replica);
  }

  #shift(shared: SharedLoad, requests: number, tokens: number): void {
    if (requests === 0 && tokens === 0) return;
    if (requests > 0) this.#risen += requests;
    shared.requests += requests;
    shared.tokens += tokens;
    this.#onChange(shared, requests, tokens);
  }

  #open(key: string): SharedLoad {
    const shared = new SharedLoad(key, this.pace);
    this.#loads.set(key, shared);
    return shared;
  }
}
