import type { Endpoint } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { SaturationDetector } from "../../base/plugin/kinds.ts";

/** The words of the reference. */
const SHEDDABLE = "system saturated, sheddable request dropped";
const STANDARD = "system saturated, request of standard criticality dropped";

/**
 * Admission without flow control: no request queues. A saturated pool refuses sheddable requests and, at higher saturation,
 * those of InferenceModels of Standard criticality (scheduling 5.4, docs/spec/decisions.md#criticality).
 */
export class LegacyAdmission {
  readonly #detector: SaturationDetector;

  constructor(detector: SaturationDetector) {
    this.#detector = detector;
  }

  /**
   * @param endpoints the candidates of the request
   * @param now monotonic milliseconds
   * @returns undefined when the saturation is below the request's `shedAt`; else the rejection
   */
  admit(request: InferenceRequest, endpoints: readonly Endpoint[], now: number): Rejection | undefined {
    if (request.shedAt === Number.POSITIVE_INFINITY) return undefined;
    const saturation: unknown = this.#detector.saturation(endpoints, now);
    if (saturation instanceof Promise) {
      saturation.catch(() => {});
      throw new SluiceError("PLUGIN_ASYNC", "the saturation detector returned a promise, but a decision does not wait");
    }
    // With this comparison, a detector that answers NaN counts as saturated.
    if ((saturation as number) < request.shedAt) return undefined;
    return new Rejection("saturated", request.priority < 0 ? SHEDDABLE : STANDARD);
  }
}
