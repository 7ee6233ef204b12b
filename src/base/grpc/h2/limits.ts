/** One connection as its server counts it. */
export interface Guest {
  readonly address: string;
  /** Closes the connection, because another one needs its place. */
  giveWay(): void;
}

/** The most connections of a server, in parts and as a whole. */
export interface ConnectionCaps {
  /** At least 4. */
  readonly all: number;
  /** New ones; default a quarter of all. */
  readonly fresh?: number | undefined;
  /** Those of one client address; default half of all. */
  readonly ofAddress?: number | undefined;
}

/**
 * Bounds the connections of a server so that no client that holds connections keeps others out. When there is no room, the
 * connection that has been new for the longest time is closed. When none is new, the longest idle one is closed. Connections
 * with calls stay. One client address never has all connections.
 */
export class ConnectionLimits {
  readonly #caps: Required<{ [K in keyof ConnectionCaps]: number }>;
  readonly #all = new Set<Guest>();
  /** In the order in which they reached this stage. */
  readonly #new = new Set<Guest>();
  readonly #idle = new Set<Guest>();
  readonly #byAddress = new Map<string, number>();
  /** Connections that were refused, or closed for another one, so far. */
  turnedAway = 0;

  constructor({ all, fresh, ofAddress }: ConnectionCaps) {
    this.#caps = { all, fresh: fresh ?? all / 4, ofAddress: ofAddress ?? all / 2 };
  }

  /** Connections at present. */
  get size(): number {
    return this.#all.size;
  }

  /** Adds a connection, which may close others. @returns false when there is no room for it */
  enter(guest: Guest): boolean {
    const { address } = guest;
    if (!this.#makeRoom(guest)) {
      this.turnedAway++;
      return false;
    }
    this.#all.add(guest);
    this.#new.add(guest);
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1);
    return true;
  }

  /** A connection, whose handshake and preface are complete, now has calls or has none. */
  move(guest: Guest, stage: "idle" | "busy"): void {
    if (!this.#all.has(guest)) return;
    this.#new.delete(guest);
    this.#idle.delete(guest);
    if (stage === "idle") this.#idle.add(guest);
  }

  /** A connection is gone. */
  leave(guest: Guest): void {
    if (!this.#all.delete(guest)) return;
    this.#new.delete(guest);
    this.#idle.delete(guest);
    const left = this.#byAddress.get(guest.address)! - 1;
    if (left > 0) this.#byAddress.set(guest.address, left);
    else this.#byAddress.delete(guest.address);
  }

  #makeRoom({ address }: Guest): boolean {
    const { all, fresh, ofAddress } = this.#caps;
    if ((this.#byAddress.get(address) ?? 0) >= ofAddress) return this.#closeOne(address);
    if (this.#all.size >= all || this.#new.size >= fresh) return this.#closeOne();
    return true;
  }

  /** @param address only a connection of this client */
  #closeOne(address?: string): boolean {
    for (const guests of [this.#new, this.#idle]) {
      for (const guest of guests) {
        if (address !== undefined && guest.address !== address) continue;
        this.turnedAway++;
        this.leave(guest);
        guest.giveWay();
        return true;
      }
    }
    return false;
  }
}

/**
 * A holder of more than `limit / own` of all places for calls must leave `limit / spare` of them to others. A holder of fewer
 * may take any free place.
 */
const SHARE = {
  /** One connection. */
  connection: { own: 16, spare: 16 },
  /** All connections of one client address. */
  address: { own: 4, spare: 8 },
} as const;

/**
 * Bounds the calls of a server over all of its connections, so that no connection and no client address takes every place. A
 * holder of many places leaves some to others. A call that finds no place is refused. Its client may send it again, because the
 * server did no work for it.
 */
export class StreamLimits {
  readonly #limit: number;
  readonly #byAddress = new Map<string, number>();
  #size = 0;

  /** @param limit calls at a time on all connections */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Calls at present. */
  get size(): number {
    return this.#size;
  }

  /** @param calls calls that the connection already has */
  hasRoom(address: string, calls: number): boolean {
    const limit = this.#limit;
    const { connection, address: client } = SHARE;
    const ofAddress = this.#byAddress.get(address) ?? 0;
    const spared = Math.max(
      calls * connection.own >= limit ? limit / connection.spare : 0,
      ofAddress * client.own >= limit ? limit / client.spare : 0,
    );
    return this.#size < limit - spared;
  }

  /** A call begins. */
  enter(address: string): void {
    this.#size++;
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1);
  }

  /** A call is over. */
  leave(address: string): void {
    this.#size--;
    const left = this.#byAddress.get(address)! - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }

  /** Client addresses with calls. */
  get addresses(): number {
    return this.#byAddress.size;
  }
}
