import { quantile } from "../../base/telemetry/quantile.ts";
import type { Outcome } from "./client.ts";
import { isTooBusy, type LagSummary } from "./lag.ts";

/** The figures of one half of the demo, in the shape of `--json`. */
export interface HalfSummary {
  readonly name: string;
  readonly requests: number;
  readonly failed: number;
  readonly interrupted: number;
  readonly ttftMs: { readonly p50: number; readonly p90: number };
  readonly outputTokensPerSecond: number;
  readonly cacheHitRate: number;
  /** How late timers of this process were meanwhile. */
  readonly lagMs: LagSummary;
  /** The times say more about the machine than about the policy. */
  readonly tooBusy: boolean;
}

/** Gathers the outcomes of one half. */
export class Half {
  readonly name: string;
  readonly #ttfts: number[] = [];
  #requests = 0;
  #failed = 0;
  #interrupted = 0;
  #tokens = 0;
  /** The first few things that went wrong, for people. */
  readonly problems: string[] = [];

  constructor(name: string) {
    this.name = name;
  }

  add(outcome: Outcome): void {
    this.#requests++;
    this.#tokens += outcome.outputTokens;
    if (!Number.isNaN(outcome.ttftMs)) this.#ttfts.push(outcome.ttftMs);
    if (outcome.kind === "failed") this.#failed++;
    if (outcome.kind === "interrupted") this.#interrupted++;
    if (outcome.kind === "failed" && this.problems.length < 5) this.problems.push(outcome.detail);
  }

  /** @param seconds that the half has lasted @param hitRate cached prompt tokens by all prompt tokens, 0..1 */
  summary(seconds: number, hitRate: number, lagMs: LagSummary): HalfSummary {
    const sorted = [...this.#ttfts].sort((a, b) => a - b);
    return {
      name: this.name,
      requests: this.#requests,
      failed: this.#failed,
      interrupted: this.#interrupted,
      ttftMs: { p50: round(quantile(sorted, 0.5)), p90: round(quantile(sorted, 0.9)) },
      outputTokensPerSecond: round(seconds > 0 ? this.#tokens / seconds : 0),
      cacheHitRate: Math.round(hitRate * 1000) / 1000,
      lagMs,
      tooBusy: isTooBusy(lagMs),
    };
  }
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
