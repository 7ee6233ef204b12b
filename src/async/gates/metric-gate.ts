import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import {
  type CapacityReading,
  type CapacitySource,
  CONTINUE,
  type DispatchGate,
  type GateContext,
  type GateMessage,
  type GateVerdict,
  type MetricSample,
  REFUSE,
} from "../../base/plugin/gate.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { capacityKey, type MetricSettings } from "./metric-parameters.ts";
import { RefreshCache, whileWanted } from "./metric-sources/refresh-cache.ts";

/** The result of one question to a metric. */
export interface MetricFinding {
  /** D of the metric, finite; undefined = cannot be read, and `problem` says why. */
  readonly budget: number | undefined;
  readonly problem: string;
  readonly kind: CapacityReading["kind"];
  /** max_SYS in the gate's unit, where the metrics state it. */
  readonly maxSys: number | undefined;
  /** When D was true, Unix milliseconds by the local clock. */
  readonly sampleTime: number;
}

/** The parts of a metric gate that differ from other metric gates. */
interface MetricGateOptions {
  /** Of the gate. */
  readonly type: string;
  /** The InferencePool that the gate names, or "". */
  readonly pool: string;
  /** B, 0..1. */
  readonly baseline: number;
  /** The amount that may be spent above B while the metric cannot be read, >= 0; 0 = closed. */
  readonly fallback: number;
  readonly settings: MetricSettings;
  /** Milliseconds that a question may take. */
  readonly limit: number;
  /** @throws SluiceError METRIC_SOURCE when the metric cannot be read */
  look(signal: AbortSignal): Promise<MetricFinding>;
  close(): Promise<void>;
}

/** A finding and the time of its question. */
interface Look {
  readonly finding: MetricFinding;
  /** Monotonic milliseconds: ages do not jump with the wall clock. */
  readonly startedAt: number;
  readonly startedWall: number;
  /** Milliseconds by which the sample was older than the question. */
  readonly age: number;
}

interface Evaluation {
  readonly look: Look;
  /** The metric's reading. */
  readonly seen: CapacityReading;
  /** The reading that is spent: the same, or the fallback. */
  readonly spent: CapacityReading;
}

/** At most one line a minute that says why the metric cannot be read, and one when it can be read again. */
const LOG_LIMITS = { intervalMs: 60_000, maxKeys: 2 };

/** The finding of a question without a usable answer. */
export function unread(problem: string): MetricFinding {
  return { budget: undefined, problem, kind: "queue-only", maxSys: undefined, sampleTime: Number.NEGATIVE_INFINITY };
}

/**
 * A capacity that a metric measures (async-processor 2.7, 3.3). An unusable reading is no capacity: a question without an
 * answer, a value that is no number, a sample older than `max_sample_age`. Only an explicit fallback then opens the gate.
 */
class MetricCapacity implements CapacitySource {
  readonly key: string;
  readonly #options: MetricGateOptions;
  readonly #clock: Clock;
  readonly #figures: GateContext["figures"];
  readonly #log: RateLimitedLog;
  readonly #cache: RefreshCache<Look>;
  #evaluation: Evaluation | undefined;
  #wasReadable = true;

  constructor(options: MetricGateOptions, { clock, figures, log, cacheTtl }: GateContext) {
    this.key = capacityKey(options.type, options.settings);
    this.#options = options;
    this.#clock = clock;
    this.#figures = figures;
    this.#log = new RateLimitedLog(log, clock, LOG_LIMITS);
    this.#cache = new RefreshCache({
      clock,
      ttl: cacheTtl,
      limit: options.limit,
      ask: async (signal) => {
        const [startedAt, startedWall] = [clock.now(), clock.wall()];
        const finding = await options.look(signal);
        return { finding, startedAt, startedWall, age: startedWall - finding.sampleTime };
      },
      failed: (error) => {
        const finding = unread(messageOf(error));
        return { finding, startedAt: clock.now(), startedWall: clock.wall(), age: Number.POSITIVE_INFINITY };
      },
    });
  }

  async read(fresh: boolean): Promise<CapacityReading> {
    const kept = fresh ? undefined : this.#kept;
    // A kept reading that is too old to be believed is passed over.
    return this.#evaluate(kept ?? (await this.#cache.read(fresh || this.#cache.kept !== undefined))).spent;
  }

  /** As `read(false)`, without waiting; undefined when it would have to ask. */
  get kept(): CapacityReading | undefined {
    const kept = this.#kept;
    return kept === undefined ? undefined : this.#evaluate(kept).spent;
  }

  /**
   * The kept reading, unless its sample was young enough and became too old while it was kept: the cache time may be longer
   * than `max_sample_age`. A sample that was too old from the start is kept; otherwise every message would ask again.
   */
  get #kept(): Look | undefined {
    const { kept } = this.#cache;
    if (kept === undefined) return undefined;
    const { max_sample_age: limit } = this.#options.settings;
    return kept.age <= limit && this.#age(kept) > limit ? undefined : kept;
  }

  /** The budget that a reading allows, 0..1 (async-processor 3.3): D - B, or the fallback. */
  budgetOf(reading: CapacityReading): number {
    // A spendable reading with a problem is the fallback; computed from D, it would lose digits.
    if (reading.problem !== "") return reading.readable ? Math.min(this.#options.fallback, 1 - reading.baseline) : 0;
    return reading.budget > reading.baseline ? Math.min(1, reading.budget - reading.baseline) : 0;
  }

  close(): Promise<void> {
    this.#cache.close();
    return this.#options.close();
  }

  #evaluate(look: Look): Evaluation {
    const problem = this.#problem(look);
    let evaluation = this.#evaluation;
    if (evaluation?.look !== look || evaluation.seen.problem !== problem) {
      evaluation = this.#evaluation = this.#readings(look, problem);
      this.#tell(evaluation.seen);
    }
    this.#figures.reading(this.#options.pool, evaluation.seen);
    return evaluation;
  }

  #problem(look: Look): string {
    const { budget, problem } = look.finding;
    if (budget === undefined) return problem;
    const { max_sample_age: limit } = this.#options.settings;
    return this.#age(look) <= limit ? "" : `the sample is older than max_sample_age (${limit} ms)`;
  }

  /** The age of its sample, milliseconds. */
  #age({ age, startedAt }: Look): number {
    return age + (this.#clock.now() - startedAt);
  }

  #readings(look: Look, problem: string): Evaluation {
    const { baseline, fallback, settings } = this.#options;
    const { budget = 0, kind, maxSys, sampleTime } = look.finding;
    const seen: CapacityReading = {
      readable: problem === "",
      problem,
      budget: problem === "" ? Math.min(1, Math.max(0, budget)) : 0,
      baseline,
      maxSys: settings.max_sys ?? maxSys,
      unit: settings.unit,
      kind,
      sampleTime,
      value: problem === "" ? budget : 0,
      threshold: baseline,
    };
    if (seen.readable || fallback <= 0) return { look, seen, spent: seen };
    const assumed = Math.min(1, baseline + fallback);
    const spent: CapacityReading = {
      ...seen,
      readable: true,
      budget: assumed,
      value: assumed,
      // A number without a measurement does not contain own work.
      kind: "queue-only",
      // After an overload the fallback is not new: it must not reopen the gate at once.
      sampleTime: look.startedWall - settings.metric_lag,
    };
    return { look, seen, spent };
  }

  #tell(seen: CapacityReading): void {
    const { type, pool, settings } = this.#options;
    if (!seen.readable) {
      const fields = { gate: type, pool, fallback: settings.fallback, problem: seen.problem };
      this.#log.log("error", "unreadable", fields, "using fallback value");
    } else if (!this.#wasReadable)
      this.#log.log("info", "readable", { gate: type, pool }, "metric source is readable again");
    this.#wasReadable = seen.readable;
  }
}

/** A gate that lets messages pass while a metric shows room (async-processor 3.3, metric gates). */
export function metricGate(options: MetricGateOptions, context: GateContext): DispatchGate {
  const capacity = new MetricCapacity(options, context);
  const verdict = (reading: CapacityReading): GateVerdict => (capacity.budgetOf(reading) > 0 ? CONTINUE : REFUSE);
  return {
    capacities: [capacity],
    budget: async () => capacity.budgetOf(await capacity.read(false)),
    apply(message: GateMessage) {
      if (message.admitted === true) return CONTINUE;
      const { kept } = capacity;
      return kept === undefined ? whileWanted(capacity.read(false), message.signal).then(verdict) : verdict(kept);
    },
    close: () => capacity.close(),
  };
}

/**
 * The smallest value of several series, for a budget: it exceeds none of them, so it is safe if any of them is right.
 * @throws SluiceError METRIC_SOURCE when there is none, or one that is no finite number
 */
export function lowest(samples: readonly MetricSample[]): number {
  return combined(samples, Math.min);
}

/** The largest value of several series, for a load. @throws as `lowest` */
export function highest(samples: readonly MetricSample[]): number {
  return combined(samples, Math.max);
}

/** The sum of all series, for a load that is spread over them. @throws as `lowest` */
export function total(samples: readonly MetricSample[]): number {
  return combined(samples, (a, b) => a + b, 0);
}

/** @param start default: the value of the first sample */
function combined(samples: readonly MetricSample[], choose: (a: number, b: number) => number, start?: number): number {
  const first = samples[0];
  if (first === undefined) throw new SluiceError("METRIC_SOURCE", "the metric has no samples");
  let found = start ?? first.value;
  for (const { value } of samples) {
    if (!Number.isFinite(value)) throw new SluiceError("METRIC_SOURCE", `a sample has the value ${value}`);
    found = choose(found, value);
  }
  return found;
}
