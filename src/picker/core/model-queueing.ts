import type { Logger } from "../../base/telemetry/logger.ts";
import type { ModelResolver } from "../../pool/resources/resolve.ts";
import { flowControlSummary } from "../config/effective.ts";
import { forModels, type InForce } from "./in-force.ts";

/**
 * Follows whether InferenceModels turn flow control on, where the configuration does not set its feature gate
 * (docs/spec/decisions.md#model-fairness).
 */
export class ModelQueueing {
  readonly #models: ModelResolver;
  readonly #log: Logger;
  #present: boolean;
  /** What the log says last. */
  #told: "on" | "off" = "off";

  constructor(models: ModelResolver, log: Logger) {
    this.#models = models;
    this.#log = log;
    this.#present = models.modelsPresent ?? false;
  }

  /** The API objects have changed. While there is no pool, everything stays as it was: the pool may come back with its models. */
  look(): void {
    this.#present = this.#models.modelsPresent ?? this.#present;
  }

  /** Returns the parts for the present InferenceModels. Throws the error of a policy's creation. */
  apply(inForce: InForce): InForce {
    return forModels(inForce, this.#present);
  }

  /** Logs that InferenceModels have turned flow control on or off, once each time. */
  tell({ flowControl, modelFlowControl }: InForce): void {
    const state = flowControl !== undefined && modelFlowControl !== undefined ? "on" : "off";
    if (state === this.#told) return;
    this.#told = state;
    if (state === "on") {
      this.#log.info({ flowControl: flowControlSummary(modelFlowControl!) }, ON);
      if (this.#models.shedsByFlag) this.#log.warn({}, NO_SHEDDING);
    } else if (flowControl === undefined) this.#log.info({}, OFF);
  }
}

const ON =
  "flow control is on: there are InferenceModels of a v1alpha2 pool, and the configuration does not set the feature gate flowControl";
const OFF = "flow control by InferenceModels is off; waiting requests continue at once";
const NO_SHEDDING =
  "--standard-shed-at and --legacy-criticality have no effect while flow control is on; the feature gate flowControl=false turns it off";
