import type { QueueSettings } from "../settings.ts";

/** Claims that a call without an answer may have made. */
interface LostClaims {
  readonly queue: QueueSettings;
  readonly claimIds: readonly string[];
  /** Monotonic milliseconds until which the server may still have made them. */
  readonly until: number;
}

/** Most remembered calls; a forgotten claim goes back when its lease runs out. */
const MOST = 100;

/**
 * Remembers calls whose answer was lost, in order to find their effects. Claims without a holder go back at once, not when
 * their lease runs out. A repeated settlement knows why its claim is gone.
 */
export class LostAnswers {
  readonly #claims: LostClaims[] = [];
  readonly #settled = new Set<string>();

  claimed(lost: LostClaims): void {
    this.#claims.push(lost);
    if (this.#claims.length > MOST) this.#claims.shift();
  }

  /** The claims that may still be found at `now`. */
  *claims(now: number): Generator<LostClaims> {
    while (this.#claims[0] !== undefined && this.#claims[0].until < now) this.#claims.shift();
    yield* this.#claims;
  }

  /** Notes that the settlement of these claims was sent, and no answer came. */
  settled(claimIds: Iterable<string>): void {
    for (const id of claimIds) this.#settled.add(id);
  }

  /** Whether an earlier settlement of this claim got no answer. Ask once the settlement has been answered. */
  takeSettled(claimId: string): boolean {
    return this.#settled.delete(claimId);
  }
}
