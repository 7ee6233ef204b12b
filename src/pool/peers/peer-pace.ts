import { type InFlightLoad, MOST_LEAN, type PeerLean } from "../../base/inference/endpoint.ts";
import { Coincidence } from "./coincidence.ts";
import { LEAST_INTERVAL } from "./message.ts";
import { planUnseen } from "./unseen-plan.ts";

/** Milliseconds that the news of a peer take, until that is measured: the time between two messages, and as much on the way. */
const USUAL_LAG = 2 * LEAST_INTERVAL;
/** The longest way of a message that counts, in milliseconds: a store that is slower is of no use for what happens now. */
const LONGEST_WAY = 1000;
/** The weight of each new measurement in the mean of the ways. */
const NEW_WAY = 1 / 8;
/**
 * With so many own requests in a lag, the trust that peers have sent theirs to the same endpoints is one half: a few requests are
 * chance, and many are a burst.
 */
const DOUBT = 8;
/** Above this trust there is no plan: nothing is left to guess, and a plan costs time. */
const SURE = 0.9;
/** The weight of each new request in the means. */
const NEW_PART = 1 / 256;
/** Before the first prompt: just enough to decide between equals. */
const LEAST_LEAN = 1;
/**
 * The probability from which a request counts as sent together with those of peers. And so many requests of peers on their way give a
 * lean its full weight: with fewer, replicas seldom meet, and a lean would only make the load uneven.
 */
const HALF = 0.5;

/** An address of the pool, with what peers have probably just sent there. */
export interface PlannedAddress {
  /** Requests that no message names yet. */
  planned: number;
  /** Of all replicas, as far as this one knows. */
  readonly known: InFlightLoad;
}

/** How far this process is behind its peers, and what they have probably done meanwhile. */
export class PeerPace {
  /** Peers that live and have had traffic in the last minute, or are new. */
  busy = 0;
  /** The place of this replica among those with traffic. */
  self = 0;
  /** Milliseconds from a request of a peer until this process knows of it. */
  lagMs = USUAL_LAG;
  readonly coincidence = new Coincidence();
  /** Means over the requests of this process: tokens to compute, and their squares. */
  #tokens = 0;
  #squares = 0;
  /** Requests of this process in the last lag, at all endpoints; older ones count less and less. And when the last one was sent. */
  #recent = 0;
  #sentAt = 0;
  #pool: readonly PlannedAddress[] = [];
  #loads: readonly InFlightLoad[] = [];
  #out = new Float64Array(0);
  /** Whether the plan has any request; the moment that it is for, NaN = none. */
  #isPlanned = false;
  #plannedAt = Number.NaN;
  #version = 0;
  /** Computed with the plan. */
  #trust = 0;
  readonly #lean = { requests: 0, tokens: 0, share: 0 };
  #leanIsOld = true;

  /** Tokens of a request of this process, on average. */
  get tokens(): number {
    return this.#tokens;
  }

  /** The addresses of the pool in the order in which homes are dealt out. */
  set pool(pool: readonly PlannedAddress[]) {
    for (const address of this.#pool) address.planned = 0;
    this.#pool = pool;
    this.#loads = pool.map(({ known }) => known);
    this.#out = new Float64Array(pool.length);
    this.#changed();
  }

  /** An own message is back: those of peers have come about as far. @param ms how long it took */
  came(ms: number): void {
    this.lagMs += (LEAST_INTERVAL + Math.min(LONGEST_WAY, ms) - this.lagMs) * NEW_WAY;
    this.#leanIsOld = true;
  }

  /** This process has sent a request. @param tokens that the endpoint has to compute */
  sent(tokens: number, now: number): void {
    this.#tokens += (tokens - this.#tokens) * NEW_PART;
    this.#squares += (tokens * tokens - this.#squares) * NEW_PART;
    this.#recent = this.#recentAt(now) + 1;
    this.#sentAt = now;
    this.coincidence.sent(now, this.lagMs);
    this.#changed();
  }

  /** A peer says that it has sent so many requests. */
  heard(requests: number, now: number): void {
    this.coincidence.heard(requests, now, this.lagMs);
    this.#changed();
  }

  /**
   * The load that counts at the home of another replica: a request that it may just have sent, and that others would wait for. Long
   * prompts make others wait longer, and so they weigh by their length. All weighs less where few requests of peers are on their way.
   * The request counts only where replicas get their requests together. Valid until the next call.
   */
  lean(): PeerLean {
    // Each endpoint asks, in each decision.
    if (this.#leanIsOld) this.#findLean();
    return this.#lean;
  }

  /** How much the last requests of this process say of where its peers have sent theirs, 0 to 1; for the moment of `version`. */
  get trust(): number {
    return this.#trust;
  }

  /** Plans for a moment. @returns another number once anything has changed since the last call */
  version(now: number): number {
    this.#plan(now);
    return this.#version;
  }

  #changed(): void {
    this.#plannedAt = Number.NaN;
    this.#leanIsOld = true;
  }

  #findLean(): void {
    const { coincidence, lagMs } = this;
    const together = coincidence.together(this.busy, lagMs);
    const tokens = this.#tokens === 0 ? LEAST_LEAN : Math.min(MOST_LEAN, this.#squares / this.#tokens);
    this.#lean.requests = together >= HALF ? 1 : 0;
    this.#lean.share = Math.min(1, (together + coincidence.unheard(lagMs)) / HALF);
    this.#lean.tokens = Math.max(LEAST_LEAN, this.#lean.share * tokens);
    this.#leanIsOld = false;
  }

  #recentAt(now: number): number {
    return this.#recent * Math.exp((this.#sentAt - now) / this.lagMs);
  }

  /** Once for each moment. */
  #plan(now: number): void {
    if (this.#plannedAt === now) return;
    this.#plannedAt = now;
    this.#version++;
    const recent = this.#recentAt(now);
    this.#trust = recent ** 2 / (recent ** 2 + DOUBT ** 2);
    const together = this.coincidence.together(this.busy, this.lagMs);
    const wasPlanned = this.#isPlanned;
    this.#isPlanned = planUnseen(
      {
        loads: this.#loads,
        replicas: this.busy + 1,
        self: this.self,
        together,
        each: this.#trust > SURE ? 0 : this.coincidence.share(this.busy) * recent * (1 - this.#trust),
        tokens: this.#tokens,
        lean: this.lean().tokens,
      },
      this.#out,
    );
    if (!wasPlanned && !this.#isPlanned) return;
    for (let at = 0; at < this.#pool.length; at++) this.#pool[at]!.planned = this.#out[at]!;
  }
}
