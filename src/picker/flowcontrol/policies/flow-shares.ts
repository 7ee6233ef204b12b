/** Milliseconds for which a flow counts after its last request. */
const ACTIVE = 60_000;
/** The most flows that count; beyond them those that had no request for longest do not. */
const MAX_FLOWS = 4096;

/** A flow that has requests in flight, or had a request lately. */
interface Share {
  weight: number;
  /** Tokens in flight. */
  tokens: number;
  /** Monotonic milliseconds of its last request. */
  seenAt: number;
}

/**
 * The tokens in flight of each flow, against its share by weight. The flows of the last minute share the room, so that a flow finds
 * its part of the reserve when it comes back after a pause.
 */
export class FlowShares {
  readonly #reserve: number;
  /** In the order of `seenAt`. */
  readonly #flows = new Map<string, Share>();
  #tokens = 0;
  #weights = 0;

  /** @param reserve part of the room, 0 to 0.9; 0 = nothing is counted */
  constructor(reserve: number) {
    this.#reserve = reserve;
  }

  /** Whether only the reserve is free. @param fill of the band, 0 to below 1 */
  isReserved(fill: number): boolean {
    return this.#reserve > 0 && fill >= 1 - this.#reserve;
  }

  /** Whether a flow has more than its share of the tokens in flight. */
  isAbove(fairnessId: string, fill: number): boolean {
    const share = this.#flows.get(fairnessId);
    return share !== undefined && share.tokens * this.#weights * fill > share.weight * this.#tokens;
  }

  /** A request of the flow has come. @param now monotonic milliseconds */
  seen(fairnessId: string, weight: number, now: number): void {
    if (this.#reserve === 0) return;
    const share = this.#flows.get(fairnessId) ?? { weight: 0, tokens: 0, seenAt: now };
    this.#weights += weight - share.weight;
    share.weight = weight;
    share.seenAt = now;
    this.#flows.delete(fairnessId);
    this.#flows.set(fairnessId, share);
    this.#forget(now);
  }

  /** Requests of the flow begin or end. @param tokens below 0 = they end */
  add(fairnessId: string, tokens: number): void {
    if (this.#reserve === 0) return;
    const share = this.#flows.get(fairnessId);
    if (share === undefined) return;
    // A flow that did not count for a time has requests in flight that were never added.
    const change = Math.max(tokens, -share.tokens);
    share.tokens += change;
    this.#tokens += change;
  }

  #forget(now: number): void {
    for (const [fairnessId, share] of this.#flows) {
      const isFull = this.#flows.size > MAX_FLOWS;
      if (now - share.seenAt <= ACTIVE && !isFull) return;
      this.#flows.delete(fairnessId);
      if (share.tokens > 0 && !isFull) {
        // It is looked at again in a minute.
        share.seenAt = now;
        this.#flows.set(fairnessId, share);
      } else {
        this.#weights -= share.weight;
        this.#tokens -= share.tokens;
      }
    }
  }
}
