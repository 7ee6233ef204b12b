import type { Claim, ClaimRequest } from "./broker.ts";

/** Claims that wait in memory, in the order in which they came; bounded in number and bytes. */
export class ClaimBuffer {
  readonly #limits: { readonly claims: number; readonly bytes: number };
  #claims: Claim[] = [];
  #bytes = 0;
  /** No held claim has an earlier deadline (Unix seconds): until it passes, none has expired. */
  #earliest = Number.POSITIVE_INFINITY;

  constructor(limits: { readonly claims: number; readonly bytes: number }) {
    this.#limits = limits;
  }

  get claims(): readonly Claim[] {
    return this.#claims;
  }

  /** Further claims that fit; 0 also when the bytes are used up, which the last claim may exceed. */
  get room(): number {
    return this.#bytes >= this.#limits.bytes ? 0 : Math.max(0, this.#limits.claims - this.#claims.length);
  }

  /** The caller checks `room` first. */
  add(claim: Claim): void {
    this.#claims.push(claim);
    this.#bytes += claim.message.text.length;
    this.#earliest = Math.min(this.#earliest, claim.message.request.deadline);
  }

  /**
   * Takes out the oldest claims: `max` whose deadline has not passed, and `expired` in addition whose deadline has. Claims
   * whose lease was lost meanwhile are removed and not returned.
   * @param now Unix milliseconds
   */
  take({ max, expired }: ClaimRequest, now: number): Claim[] {
    const taken: Claim[] = [];
    const kept: Claim[] = [];
    let live = max;
    let late = this.#earliest * 1000 < now ? expired : 0;
    const before = this.#claims.length;
    let at = 0;
    for (; at < this.#claims.length && (live > 0 || late > 0); at++) {
      const claim = this.#claims[at]!;
      const isLate = claim.message.request.deadline * 1000 < now;
      if (!claim.lost && (isLate ? late <= 0 : live <= 0)) {
        kept.push(claim);
        continue;
      }
      this.#bytes -= claim.message.text.length;
      if (claim.lost) continue;
      if (isLate) late--;
      else live--;
      taken.push(claim);
    }
    if (at > 0) this.#claims.splice(0, at, ...kept);
    if (at === before) this.#lookForEarliest();
    return taken;
  }

  #lookForEarliest(): void {
    this.#earliest = Number.POSITIVE_INFINITY;
    for (const { message } of this.#claims) this.#earliest = Math.min(this.#earliest, message.request.deadline);
  }
}
