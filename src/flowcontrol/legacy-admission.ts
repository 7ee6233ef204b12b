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
   * @returns undefined when admitted: always from priority 0 up, below that while the saturation is under 1
   */
  admit(request: InferenceRequest, endpoints: readonly Endpoint[], now: number): Rejection | undefined {
    if (request.priority >= 0) return undefined;
    // Written so that a detector which answers NaN counts as saturated.
    if (this.#detector.saturation(endpoints, now) < 1) return undefined;
    return new Rejection("saturated", "system saturated, sheddable request dropped");
  }
}
