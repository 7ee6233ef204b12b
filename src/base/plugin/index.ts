/** The names that plugin authors import from `sluice/plugin`. */
export { z } from "zod";
export { Rejection } from "../inference/outcomes.ts";
export {
  defineAdmitter,
  defineDecider,
  defineDiscovery,
  defineFairnessPolicy,
  defineFilter,
  defineOrderingPolicy,
  defineParser,
  definePicker,
  defineProducer,
  defineProfileHandler,
  defineRequestHeaderProcessor,
  defineRequestHook,
  defineSaturationDetector,
  defineScorer,
  defineScreener,
  defineUsageLimitPolicy,
  duration,
} from "./define.ts";
export * from "./gate.ts";
export * from "./keys.ts";
export type * from "./kinds.ts";
