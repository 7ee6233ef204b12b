import { type Endpoint, isFresh } from "../../base/inference/endpoint.ts";

/** Metrics are stale above this age in milliseconds, or above 2.5 scrape intervals of the endpoint if that is longer. */
const STALENESS = 200;
/** The part of the known size by which a trial or a correction changes it. */
const STEP = 1 / 16;
/** Milliseconds without a waiting request after which the size grows again to one that was seen. */
const RECOVERS_AFTER = 1000;
/** Milliseconds between two steps of this growth. */
const RECOVERY_STEP = 250;
/** Milliseconds without a waiting request after which the size is learned anew. */
const LEARNS_AFTER = 4000;
/** The same where the last time found no larger size. */
const LEARNS_AGAIN_AFTER = 60_000;

/**
 * What the size of an endpoint means: the most that was seen (`none`), the whole endpoint, since requests waited (`whole`), or the
 * whole endpoint of some time ago, while it is learned anew (`anew`).
 *
 * none -> whole: requests wait. whole -> anew: no request waited for some time, and background requests have the endpoint to
 * themselves. anew -> whole: requests wait, or others came. Any -> none: another model server may answer.
 */
type Knowledge = "none" | "whole" | "anew";

/**
 * How many requests one endpoint runs at once, learned from its metrics, and how many of them background requests may use. No
 * metric of a model server states its slots, so the size is what was seen: the most requests that ran while none waited. Until
 * a request waits, each scrape that shows the known size in use allows a few requests more. Once requests wait
 * although no more run than before, those that run are the size. Where fewer run than before, this takes two scrapes in a row:
 * a model server also counts requests as waiting that it starts with its next step. The size is learned anew from time to time,
 * while background requests have the endpoint to themselves.
 */
export class EndpointRoom {
  readonly endpoint: Endpoint;
  /** The most requests that ran at once. */
  #size = 0;
  #knowledge: Knowledge = "none";
  /** The most that ran without a waiting request; it comes nearer to the size each time requests begin to wait. */
  #most = 0;
  #waited = false;
  #learnsAfter = LEARNS_AFTER;
  /** Monotonic milliseconds of the last scrape with waiting requests, and of the last growth. */
  #waitedAt = Number.NEGATIVE_INFINITY;
  #grownAt = Number.NEGATIVE_INFINITY;
  /** The most requests at the endpoint since the last scrape, and between the last two. */
  #peak = 0;
  #peakBefore = 0;
  /** Requests that this process does not know of, at the last two scrapes. */
  #strangers = 0;
  #strangersBefore = 0;
  /** Background requests at the endpoint, and those of them that were told to end. */
  background = 0;
  leaving = 0;

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
  }

  /** Requests that the endpoint runs at once, as far as is known. */
  get size(): number {
    return Math.max(1, this.#size);
  }

  /** The requests at the endpoint: those in flight from this process and its peers, and those of others. */
  get present(): number {
    return this.endpoint.inFlight.requests + Math.min(this.#strangers, this.#strangersBefore);
  }

  /** A background request was sent here, and counts. */
  counted(): void {
    this.background++;
    this.#peak = Math.max(this.#peak, this.present);
  }

  /** Another model server may answer at the old address: nothing is known of it. */
  forget(): void {
    this.#size = 0;
    this.#most = 0;
    this.#knowledge = "none";
    this.#waited = false;
    this.#learnsAfter = LEARNS_AFTER;
  }

  /**
   * New metrics are there.
   * @param now monotonic milliseconds
   * @returns the number of requests that wait and should not: so many background requests should end
   */
  scraped(now: number): number {
    const { waiting, running } = this.endpoint.metrics;
    if (Number.isNaN(waiting) || Number.isNaN(running)) return 0;
    this.#strangersBefore = this.#strangers;
    this.#strangers = Math.max(0, running + waiting - this.endpoint.inFlight.requests);
    if (waiting === 0) {
      this.#waited = false;
      // Requests that take less time than lies between two scrapes hardly show in what runs.
      const fitted =
        this.#knowledge === "whole" ? running : Math.max(running, Math.min(this.#peakBefore, this.#size + this.#step));
      this.#size = Math.max(this.#size, fitted);
      this.#most = Math.max(this.#most, running);
      this.#peakBefore = this.#peak;
      this.#peak = 0;
      if (this.#knowledge === "whole") this.#calm(now);
      // Others came while the size was learned anew.
      else if (this.#knowledge === "anew" && this.present > this.background) this.#knowledge = "whole";
      return 0;
    }
    const isSure = this.#waited || running >= this.#most;
    this.#peak = 0;
    this.#peakBefore = 0;
    if (!this.#waited) this.#most = Math.max(running, (this.#most + running) / 2);
    this.#waited = true;
    this.#waitedAt = now;
    if (!isSure) return 0;
    if (this.#knowledge !== "whole")
      this.#learnsAfter = this.#knowledge === "anew" && running <= this.#size ? LEARNS_AGAIN_AFTER : LEARNS_AFTER;
    this.#knowledge = "whole";
    this.#size = running;
    return Math.max(0, waiting - this.leaving);
  }

  /** Whether the endpoint has no slot left for the next request that is no background request. */
  get isTight(): boolean {
    return this.#knowledge !== "none" && this.present - this.leaving > this.#size - this.#step;
  }

  /**
   * How many further background requests may go to the endpoint; they leave the baseline free.
   * @param baseline share of the endpoint, 0 to below 1
   * @param now monotonic milliseconds
   */
  room(baseline: number, now: number): number {
    const { metrics, state } = this.endpoint;
    if (state === "down") return 0;
    // Without metrics, nothing is known: one at a time, as the saturation allows.
    if (Number.isNaN(metrics.running) || Number.isNaN(metrics.waiting)) return 1;
    if (metrics.waiting > 0 || metrics.kvUsage >= 1 - baseline || !isFresh(this.endpoint, now, STALENESS)) return 0;
    return Math.max(0, this.#limit(baseline) - this.present);
  }

  /** The most requests at the endpoint beside which a background request may go. One goes alone to an endpoint with one slot. */
  #limit(baseline: number): number {
    if (this.#knowledge !== "whole") return this.#size + this.#step;
    return Math.max(1, Math.floor(this.#size * (1 - baseline) + 1e-9));
  }

  get #step(): number {
    return Math.max(1, Math.floor(this.#size * STEP));
  }

  /** No request waits at an endpoint whose size is known. */
  #calm(now: number): void {
    const since = now - this.#waitedAt;
    // The size was measured in a bad moment.
    if (this.#size < Math.floor(this.#most)) {
      if (since < RECOVERS_AFTER || now - this.#grownAt < RECOVERY_STEP) return;
      this.#grownAt = now;
      this.#size += this.#step;
    } else if (since >= this.#learnsAfter && this.present === this.background) this.#knowledge = "anew";
  }
}
