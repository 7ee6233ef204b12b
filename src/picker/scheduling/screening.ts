import type { Clock } from "../../base/clock/clock.ts";
import type { RecordedFilter } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Screener } from "../../base/plugin/kinds.ts";
import { type DroppedBy, droppedOnes } from "./dropped.ts";
import { type CallReporter, refusalIn } from "./plugin-calls.ts";
import type { ProfileMember } from "./profile.ts";

const NONE: readonly RecordedFilter[] = [];

/** Runs the screeners. Each one sees all candidates; only candidates that every screener keeps are left (scheduling 3.2). */
export class Screening {
  /** Screeners of the last run that dropped candidates. */
  dropped: readonly RecordedFilter[] = NONE;
  readonly #screeners: readonly ProfileMember<Screener>[];
  readonly #clock: Clock;
  readonly #calls: CallReporter;

  constructor(screeners: readonly ProfileMember<Screener>[], clock: Clock, calls: CallReporter) {
    this.#screeners = screeners;
    this.#clock = clock;
    this.#calls = calls;
  }

  /**
   * @returns the candidates that every screener keeps, `endpoints` itself where no screener drops any; or a screener's refusal
   */
  run(
    request: InferenceRequest,
    endpoints: readonly Endpoint[],
    timed: boolean,
    tracked: DroppedBy | undefined,
  ): readonly Endpoint[] | Rejection {
    this.dropped = NONE;
    if (this.#screeners.length === 0) return endpoints;
    const count = endpoints.length;
    const all = new Uint8Array(count).fill(1);
    const keep = new Uint8Array(count);
    for (const screener of this.#screeners) {
      const started = timed ? this.#clock.now() : 0;
      keep.fill(1);
      let refusal: Rejection | undefined;
      try {
        refusal = refusalIn(screener.plugin.screen({ request, endpoints, keep }));
      } catch (error) {
        keep.fill(1);
        this.#calls.failed("Screener", screener, error);
      }
      if (timed) this.#calls.called("Screener", screener, started);
      if (refusal !== undefined) return refusal;
      if (!keep.includes(0)) continue;
      this.dropped = [...this.dropped, droppedOnes(screener.name, endpoints, keep, count)];
      tracked?.note("", screener.name, endpoints, keep, count);
      for (let i = 0; i < count; i++) if (keep[i] === 0) all[i] = 0;
    }
    return this.dropped.length === 0 ? endpoints : endpoints.filter((_, i) => all[i] !== 0);
  }
}
