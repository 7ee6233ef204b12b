import type { Clock } from "../../../base/clock/clock.ts";
import { quantile } from "../../../base/telemetry/quantile.ts";
import type { Outcome } from "../client.ts";

/** How far back "lately" reaches, milliseconds. */
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
  /** The first few things that went wrong, for people. */
  readonly problems: string[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  sent(): void {
    this.#sent++;
  }

  ended({ kind, ttftMs, detail }: Outcome): void {
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

  /** The p99 of the time to first token of what ended lately, milliseconds; undefined when nothing did. */
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
