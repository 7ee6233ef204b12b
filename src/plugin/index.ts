/** What plugin authors import as `sluice/plugin`. */
export { z } from "zod";
export {
  defineDiscovery,
  defineFilter,
  defineParser,
  definePicker,
  defineProducer,
  defineProfileHandler,
  defineRequestHook,
  defineSaturationDetector,
  defineScorer,
} from "./define.ts";
export { duration } from "./duration.ts";
export * from "./gate.ts";
export * from "./keys.ts";
export type * from "./kinds.ts";
