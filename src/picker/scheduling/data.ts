import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { AttributeKey } from "../../base/plugin/keys.ts";
import type { CandidateColumns } from "./candidates.ts";
import { type CallReporter, refusalIn, refusePromise } from "./plugin-calls.ts";
import type { SchedulingPlan } from "./profile.ts";
import { NO_REQUEST } from "./profile-run.ts";
import { Unprepared } from "./unprepared.ts";

/** Runs the plugins before the profiles, which see all candidates: producers, in order, and admitters (scheduling 3.3). */
export class Data {
  readonly #plan: SchedulingPlan;
  readonly #columns: CandidateColumns;
  readonly #clock: Clock;
  readonly #calls: CallReporter;

  // The one context object of all plugin calls.
  readonly #context: {
    request: InferenceRequest;
    prepared: unknown;
    readonly candidates: CandidateColumns;
    readonly random: Random;
    readonly attribute: <T>(key: AttributeKey<T>) => T | undefined;
    readonly setAttribute: <T>(key: AttributeKey<T>, value: T) => void;
  };

  constructor(plan: SchedulingPlan, columns: CandidateColumns, clock: Clock, random: Random, calls: CallReporter) {
    this.#plan = plan;
    this.#columns = columns;
    this.#clock = clock;
    this.#calls = calls;
    this.#context = {
      request: NO_REQUEST,
      prepared: undefined,
      candidates: columns,
      random,
      attribute: (key) => columns.attribute(key),
      setAttribute: (key, value) => columns.setAttribute(key, value),
    };
  }

  /** @param prepared the values of producers that prepared, by producer name */
  produce(request: InferenceRequest, timed: boolean, prepared: ReadonlyMap<string, unknown> | undefined): void {
    const context = this.#context;
    context.request = request;
    for (const producer of this.#plan.producers) {
      const started = timed ? this.#clock.now() : 0;
      const value = prepared?.get(producer.name);
      const missing = value instanceof Unprepared;
      context.prepared = missing ? undefined : value;
      if (missing) this.#calls.unprepared(producer, value);
      this.#columns.scope = producer.scope;
      try {
        refusePromise(producer.plugin.produce(context));
      } catch (error) {
        this.#columns.clear(producer.scope);
        this.#calls.failed("DataProducer", producer, error);
      }
      if (timed) this.#calls.called("DataProducer", producer, started);
    }
    context.prepared = undefined;
    context.request = NO_REQUEST;
  }

  /** @returns the rejection of the first admitter that refuses the request */
  admit(request: InferenceRequest, timed: boolean): Rejection | undefined {
    for (const admitter of this.#plan.admitters) {
      const started = timed ? this.#clock.now() : 0;
      this.#columns.scope = admitter.scope;
      this.#context.request = request;
      let refusal: Rejection | undefined;
      try {
        const answer = admitter.plugin.admit(this.#context);
        refusal = typeof answer === "string" ? new Rejection("denied", answer) : refusalIn(answer);
      } catch (error) {
        this.#calls.failed("Admission", admitter, error);
      }
      this.#context.request = NO_REQUEST;
      if (timed) this.#calls.called("Admission", admitter, started);
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  }
}
