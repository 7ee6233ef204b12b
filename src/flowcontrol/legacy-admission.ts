import type { Endpoint } from "../inference/endpoint.ts";
import { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { SaturationDetector } from "../plugin/kinds.ts";

/** Admission without flow control: nothing queues, only sheddable requests are refused (scheduling 5.4). */
export class LegacyAdmission {
  readonly #detector: SaturationDetector;

  constructor(detector: SaturationDetector) {
    this.#detector = detector;
  }

  /**
   * @param endpoints the candidates of the request
   * @param now monotonic milliseconds
   * @returns undefined when admitted: while the saturation is under the request's `shedAt`
   */
  admit(request: InferenceRequest, endpoints: readonly Endpoint[], now: number): Rejection | undefined {
    if (request.shedAt === Number.POSITIVE_INFINITY) return undefined;
    // Written so that a detector which answers NaN counts as saturated.
    if (this.#detector.saturation(endpoints, now) < request.shedAt) return undefined;
    return new Rejection("saturated", "system saturated, sheddable request dropped");
  }
}
