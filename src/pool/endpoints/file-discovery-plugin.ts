import { z } from "zod";
import { defineDiscovery } from "../../base/plugin/define.ts";

/** Parameters of both (api-resources 6A.1). */
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

/** api-resources 6A.7 */
export const multiclusterFileDiscovery = defineDiscovery({
  type: "multicluster-file-discovery",
  describe:
    "As file-discovery, for endpoints that stand for other clusters: an address may also be IPv6 or a host name, and the labels metricsAddress and metricsPort say where its metrics page is.",
  parameters: endpointsDiscoveryParameters,
  create: ({ path, watchFile }) => ({ path, watchFile, multicluster: true }),
});
