/**
 * Who has more than `limit / own` of all places for calls must leave `limit / spare` of them to others. Who stays within that
 * may have any place that is free.
 */
const SHARE = {
  /** One connection. */
  connection: { own: 16, spare: 16 },
  /** All connections of one client address. */
  address: { own: 4, spare: 8 },
} as const;

/**
 * Bounds the calls of a server over all of its connections, so that no connection and no client address takes every place: who
 * holds many leaves some to others. A call that finds no place is refused, and its client may send it again: nothing was
 * done for it.
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

  /** @param calls that the connection has already */
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
