import type { Clock } from "../../../base/clock/clock.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { quantile } from "../../../base/telemetry/quantile.ts";
import { type DemoRequest, type RequestOutcome, words } from "../traffic.ts";

/** Begin and end of the wave of realtime traffic, as shares of an act. */
export const WAVE = { from: 0.3, to: 0.55 } as const;
/** Duration of the rise, as a share of an act. */
const RISE = 0.06;
/** Shares of the slots that realtime traffic takes before and after the wave, and at its height. */
const CALM = 0.2;
const HIGH = 0.6;
/** Seconds that one request occupies a slot: 20 tokens of 25 ms and the time to the first token. */
const SECONDS = 0.53;
const TOKENS = 20;
/** Milliseconds at the end of an act without new requests. */
const TAIL_MS = 800;

interface RealtimeOptions {
  readonly seed: number;
  /** Length of the act in milliseconds. */
  readonly lengthMs: number;
  /** Requests that all servers together run at a time. */
  readonly slots: number;
}

/**
 * Requests with a wave in the middle; the same seed gives the same list. Gaps are half to one and a half of the mean gap.
 * Poisson arrivals on a few dozen slots vary so much that they would hide the wave.
 */
export function realtimeList({ seed, lengthMs, slots }: RealtimeOptions): DemoRequest[] {
  const random = new SeededRandom(seed);
  const list: DemoRequest[] = [];
  let at = 0;
  for (let number = 0; ; number++) {
    const perSecond = (slots * shareAt(at / lengthMs)) / SECONDS;
    at += ((0.5 + random.next()) * 1000) / perSecond;
    if (at >= lengthMs - TAIL_MS) return list;
    const question = words(random, 40 + random.below(40));
    list.push({ number, at, prefix: 0, system: "Answer in one sentence.", question, maxTokens: TOKENS });
  }
}

/** Share of the slots in use at a time. @param time elapsed share of the act */
function shareAt(time: number): number {
  if (time < WAVE.from || time >= WAVE.to) return CALM;
  return CALM + (HIGH - CALM) * Math.min(1, (time - WAVE.from) / RISE);
}

/** The window of `latelyP99`, in milliseconds. */
const LATELY_MS = 3000;

/** The realtime requests of one act, in the shape of `--json`. */
export interface RealtimeSummary {
  readonly requests: number;
  readonly failed: number;
  readonly interrupted: number;
  readonly ttftMs: { readonly p50: number; readonly p99: number };
}

/** Counts the realtime requests of one act. */
export class RealtimeFigures {
  readonly #clock: Clock;
  readonly #ttfts: { readonly at: number; readonly ms: number }[] = [];
  #sent = 0;
  #ended = 0;
  #failed = 0;
  #interrupted = 0;
  /** The first few problems, for people. */
  readonly problems: string[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  sent(): void {
    this.#sent++;
  }

  ended({ kind, ttftMs, detail }: RequestOutcome): void {
    this.#ended++;
    if (!Number.isNaN(ttftMs)) this.#ttfts.push({ at: this.#clock.now(), ms: ttftMs });
    if (kind === "interrupted") this.#interrupted++;
    if (kind !== "failed") return;
    this.#failed++;
    if (this.problems.length < 5) this.problems.push(detail);
  }

  get inFlight(): number {
    return this.#sent - this.#ended;
  }

  /**
   * The p99 of the time to first token of the requests that ended in the last `LATELY_MS`, in milliseconds; undefined when none
   * ended.
   */
  get latelyP99(): number | undefined {
    const since = this.#clock.now() - LATELY_MS;
    let first = this.#ttfts.length;
    while (first > 0 && this.#ttfts[first - 1]!.at >= since) first--;
    return first === this.#ttfts.length ? undefined : quantile(this.#sorted(first), 0.99);
  }

  summary(): RealtimeSummary {
    const sorted = this.#sorted(0);
    return {
      requests: this.#ended,
      failed: this.#failed,
      interrupted: this.#interrupted,
      ttftMs: { p50: Math.round(quantile(sorted, 0.5)), p99: Math.round(quantile(sorted, 0.99)) },
    };
  }

  #sorted(first: number): number[] {
    return this.#ttfts
      .slice(first)
      .map(({ ms }) => ms)
      .sort((a, b) => a - b);
  }
}
