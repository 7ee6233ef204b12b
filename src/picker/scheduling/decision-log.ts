import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { DecisionRecord, RecordedFilter } from "../../base/inference/scheduling-result.ts";
import type { CallReporter } from "./calls.ts";
import type { FullCapture } from "./full-record.ts";
import type { SchedulingPlan } from "./profile.ts";
import type { ProfileRun } from "./profile-run.ts";
import { CompactRecord } from "./record.ts";
import type { DecisionRecords } from "./records.ts";

const NO_FILTERS: readonly RecordedFilter[] = [];
const NO_OTHERS: DecisionRecord["others"] = [];
const NO_ENDPOINTS: readonly Endpoint[] = [];

/** What is known of a decision so far. */
export interface Deciding {
  readonly request: InferenceRequest;
  readonly candidates: number;
  readonly excludedDown: number;
  /** Monotonic milliseconds of its beginning. */
  readonly now: number;
  readonly screened?: readonly RecordedFilter[];
  readonly capture?: FullCapture | undefined;
  readonly run?: ProfileRun | undefined;
  readonly listed?: readonly Endpoint[];
  readonly promptBytes?: number;
  readonly others?: DecisionRecord["others"] | undefined;
  readonly refusal?: Rejection | undefined;
}

/** Makes the records of a scheduler's decisions, refusals included. */
export class DecisionLog {
  readonly #records: DecisionRecords;
  readonly #clock: Clock;
  readonly #calls: CallReporter;

  /** @param calls what is known of plugins that failed */
  constructor(records: DecisionRecords, clock: Clock, calls: CallReporter) {
    this.#records = records;
    this.#clock = clock;
    this.#calls = calls;
  }

  /** Remembers a refusal. @returns it */
  refuse(plan: SchedulingPlan, deciding: Deciding & { readonly refusal: Rejection }): Rejection {
    this.#records.add(this.record(plan, deciding));
    return deciding.refusal;
  }

  /** The record of a decision, to be handed to `add`; made while everything is as it was decided on. */
  record({ configHash }: SchedulingPlan, deciding: Deciding): CompactRecord {
    return new CompactRecord({
      sequence: this.#records.nextSequence,
      request: deciding.request,
      at: this.#clock.wall(),
      now: deciding.now,
      promptBytes: deciding.promptBytes ?? 0,
      configHash,
      run: deciding.run,
      candidates: deciding.candidates,
      excludedDown: deciding.excludedDown,
      screened: deciding.screened ?? NO_FILTERS,
      failed: this.#calls.failures,
      listed: deciding.listed ?? NO_ENDPOINTS,
      others: deciding.others ?? NO_OTHERS,
      refusal: deciding.refusal,
      full: deciding.capture?.finish(deciding.run),
    });
  }

  add(record: CompactRecord): void {
    this.#records.add(record);
  }
}
