import { z } from "zod";
import { defineRequestHook } from "../../../../src/base/plugin/define.ts";

/** Stands in for the plugin that evaluates CEL: a replay runs no request hook. */
export const requestAttributeReporter = defineRequestHook({
  type: "request-attribute-reporter",
  describe: "",
  parameters: z.unknown(),
  create: () => ({}),
});
