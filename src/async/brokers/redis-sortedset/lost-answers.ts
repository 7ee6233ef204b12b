import type { QueueSettings } from "../settings.ts";

/** Claims that a call may have made whose answer was lost. */
interface LostClaims {
  readonly queue: QueueSettings;
  readonly claimIds: readonly string[];
  /** Monotonic milliseconds until which the server may still be found to have made them. */
  readonly until: number;
}

/** Calls remembered; what is forgotten comes back when its lease runs out. */
const MOST = 100;

/**
 * Remembers calls whose answer was lost, so that what they did is found again: claims that nobody knows of go back at once
 * instead of when their lease runs out, and a settlement that is repeated knows why its claim is gone.
 */
export class LostAnswers {
  readonly #claims: LostClaims[] = [];
  readonly #settled = new Set<string>();

  claimed(lost: LostClaims): void {
    this.#claims.push(lost);
    if (this.#claims.length > MOST) this.#claims.shift();
  }

  /** Those that may still be found at `now`. */
  *claims(now: number): Generator<LostClaims> {
    while (this.#claims[0] !== undefined && this.#claims[0].until < now) this.#claims.shift();
    yield* this.#claims;
  }

  /** The settlement of these claims was sent, and no answer came. */
  settled(claimIds: Iterable<string>): void {
    for (const id of claimIds) this.#settled.add(id);
  }

  /** Was the settlement of this claim sent before without an answer? Asked when it has been answered now. */
  takeSettled(claimId: string): boolean {
    return this.#settled.delete(claimId);
  }
}
