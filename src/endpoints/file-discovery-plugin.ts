import { z } from "zod";
import { defineDiscovery } from "../plugin/define.ts";

/** Parameters of `file-discovery` (api-resources 6A.1). */
export const endpointsDiscoveryParameters = z.strictObject({
  path: z
    .string({ error: (issue) => (issue.input === undefined ? "'path' is required" : "'path' must be a string") })
    .min(1, "'path' is required")
    .describe("The endpoints file: YAML or JSON, at most 1 MiB."),
  watchFile: z.boolean().default(false).describe("Follow changes of the file."),
});

export const fileDiscovery = defineDiscovery({
  type: "file-discovery",
  describe: "Takes the endpoints from a file instead of from Kubernetes.",
  parameters: endpointsDiscoveryParameters,
  create: ({ path, watchFile }) => ({ path, watchFile }),
});
