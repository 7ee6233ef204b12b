import type { Random } from "../../base/clock/random.ts";

/** Durations in the engine; all in milliseconds (envoy-data-plane 5.1 and 5.3, "Latency"). */
export interface LatencyConfig {
  /** The formula for the time to first token; "" = `constant` if `timeToFirstToken` is not 0, else `per-token`. */
  readonly latencyCalculator: "" | "constant" | "per-token";
  readonly timeToFirstToken: number;
  readonly timeToFirstTokenStdDev: number;
  readonly interTokenLatency: number;
  readonly interTokenLatencyStdDev: number;
  readonly prefillOverhead: number;
  readonly prefillTimePerToken: number;
  readonly prefillTimeStdDev: number;
  readonly kvCacheTransferLatency: number;
  readonly kvCacheTransferLatencyStdDev: number;
  readonly kvCacheTransferTimePerToken: number;
  readonly kvCacheTransferTimeStdDev: number;
  /** Duration in a full engine divided by that in an idle one, >= 1. */
  readonly timeFactorUnderLoad: number;
  /** Multiplies every duration, > 0: 0.1 = ten times faster than configured. */
  readonly timeScale: number;
}

/** Fast but visible: a cold prompt of 2,048 tokens takes about 120 ms to its first token, a cached one 20 ms. */
export const DEFAULT_LATENCY: LatencyConfig = {
  latencyCalculator: "",
  timeToFirstToken: 0,
  timeToFirstTokenStdDev: 0,
  interTokenLatency: 10,
  interTokenLatencyStdDev: 0,
  prefillOverhead: 20,
  prefillTimePerToken: 0.05,
  prefillTimeStdDev: 0,
  kvCacheTransferLatency: 0,
  kvCacheTransferLatencyStdDev: 0,
  kvCacheTransferTimePerToken: 0.005,
  kvCacheTransferTimeStdDev: 0,
  timeFactorUnderLoad: 1,
  timeScale: 1,
};

/** Draws the durations of one engine. */
export class LatencyModel {
  readonly config: LatencyConfig;
  readonly #maxNumSeqs: number;

  /** @param maxNumSeqs slots of the engine: the load at which `timeFactorUnderLoad` applies in full */
  constructor(config: LatencyConfig, maxNumSeqs: number) {
    this.config = config;
    this.#maxNumSeqs = maxNumSeqs;
  }

  /**
   * Milliseconds from the start of a sequence to its first token.
   * @param cachedTokens prompt tokens found in the prefix cache
   * @param remotePrefill another server computed the prompt, so only its KV blocks are transferred; load has no effect
   * @param running sequences running, this one included
   */
  firstToken(
    random: Random,
    promptTokens: number,
    cachedTokens: number,
    remotePrefill: boolean,
    running: number,
  ): number {
    const c = this.config;
    const constant = c.latencyCalculator === "" ? c.timeToFirstToken > 0 : c.latencyCalculator === "constant";
    if (remotePrefill) {
      const transfer = constant
        ? jittered(random, c.kvCacheTransferLatency, c.kvCacheTransferLatencyStdDev)
        : jittered(random, promptTokens * c.kvCacheTransferTimePerToken, c.kvCacheTransferTimeStdDev);
      return transfer * c.timeScale;
    }
    const prefill = constant
      ? jittered(random, c.timeToFirstToken, c.timeToFirstTokenStdDev)
      : jittered(
          random,
          c.prefillOverhead + (promptTokens - cachedTokens) * c.prefillTimePerToken,
          c.prefillTimeStdDev,
        );
    return prefill * this.loadFactor(running) * c.timeScale;
  }

  /** Milliseconds between two tokens of a sequence while `running` sequences run. */
  nextToken(random: Random, running: number): number {
    const c = this.config;
    return jittered(random, c.interTokenLatency, c.interTokenLatencyStdDev) * this.loadFactor(running) * c.timeScale;
  }

  /** 1 with one running sequence, `timeFactorUnderLoad` with all slots taken, linear in between. */
  loadFactor(running: number): number {
    if (this.#maxNumSeqs <= 1) return 1;
    return 1 + ((this.config.timeFactorUnderLoad - 1) * (running - 1)) / (this.#maxNumSeqs - 1);
  }
}

/**
 * A normally distributed duration (Box-Muller), clamped to 30 % .. 170 % of the mean.
 * @param mean milliseconds; @param deviation standard deviation in milliseconds, 0 = exactly the mean
 */
export function jittered(random: Random, mean: number, deviation: number): number {
  if (deviation === 0 || mean === 0) return mean;
  return Math.min(1.7 * mean, Math.max(0.3 * mean, mean + deviation * gaussian(random)));
}

/** One draw from the standard normal distribution. */
export function gaussian(random: Random): number {
  // 1 - x keeps the logarithm's argument above 0.
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
}
