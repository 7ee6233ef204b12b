/** One connection as its server counts it. */
export interface Guest {
  readonly address: string;
  /** Closes it, because another one needs its place. */
  giveWay(): void;
}

/** New ones among the connections, at most this share of all. */
const NEW_SHARE = 1 / 4;
/** What the connections of one client address may have of all. */
const ADDRESS_SHARE = 1 / 2;

/**
 * Bounds the connections of a server so that nobody who sits on them keeps others out. When there is no room, the connection
 * that has been new for the longest time goes, else the one that has been idle for the longest time; those that carry calls stay.
 * One client address never has all of them.
 */
export class ConnectionLimits {
  readonly #max: number;
  readonly #all = new Set<Guest>();
  /** In the order in which they came to this stage. */
  readonly #new = new Set<Guest>();
  readonly #idle = new Set<Guest>();
  readonly #byAddress = new Map<string, number>();
  /** Connections that were refused, or closed for another one, so far. */
  turnedAway = 0;

  /** @param max connections at a time, at least 4 */
  constructor(max: number) {
    this.#max = max;
  }

  /** Connections at present. */
  get size(): number {
    return this.#all.size;
  }

  /** Takes a connection in; others may have to go. @returns false when there is no room for it */
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

  /** A connection, whose handshake and preface are through, has calls or has none. */
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
    if ((this.#byAddress.get(address) ?? 0) >= this.#max * ADDRESS_SHARE) return this.#closeOne(address);
    if (this.#all.size >= this.#max || this.#new.size >= this.#max * NEW_SHARE) return this.#closeOne();
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
