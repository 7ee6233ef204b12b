import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { CapacityReading, MetricAnswer } from "../../base/plugin/gate.ts";
import type { Logger } from "../../base/telemetry/logger.ts";

/** One way to find out a pool's budget. */
export interface CascadeSource {
  readonly kind: CapacityReading["kind"];
  ask(signal: AbortSignal): Promise<MetricAnswer>;
}

/** Which source answered, and what. */
export interface CascadeAnswer extends MetricAnswer {
  readonly kind: CapacityReading["kind"];
}

/**
 * Sources in the order of preference: the first that answers with at least one sample counts, whatever its values are
 * (async-processor 3.7). Says once in the log when another one takes over.
 */
export class BudgetCascade {
  readonly #sources: readonly CascadeSource[];
  readonly #pool: string;
  readonly #log: Logger;
  #resolved: number | undefined;

  constructor(sources: readonly CascadeSource[], pool: string, log: Logger) {
    this.#sources = sources;
    this.#pool = pool;
    this.#log = log;
  }

  /** @throws SluiceError METRIC_SOURCE when none has a sample; the signal's reason when it was aborted */
  async ask(signal: AbortSignal): Promise<CascadeAnswer> {
    const problems: string[] = [];
    for (const [index, source] of this.#sources.entries()) {
      try {
        const { samples, time } = await source.ask(signal);
        if (samples.length > 0) {
          this.#resolve(index);
          return { samples, time, kind: source.kind };
        }
        problems.push(`${index}: no samples`);
      } catch (error) {
        if (signal.aborted) throw error;
        problems.push(`${index}: ${messageOf(error)}`);
      }
    }
    throw new SluiceError("METRIC_SOURCE", `all metric sources unavailable (${problems.join("; ")})`);
  }

  #resolve(index: number): void {
    const previous = this.#resolved;
    if (previous === index) return;
    this.#resolved = index;
    const pool = this.#pool;
    if (previous === undefined) this.#log.info({ pool, sourceIndex: index }, "metric source resolved");
    else if (index === 0) this.#log.info({ pool }, "primary metric source recovered");
    else this.#log.info({ pool, fallbackIndex: index, previousIndex: previous }, "using fallback metric source");
  }
}
