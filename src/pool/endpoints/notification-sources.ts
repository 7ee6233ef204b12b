import { z } from "zod";
import { defineDataSource } from "../../base/plugin/define.ts";

/**
 * scheduling 1.8. Sluice tells every plugin of endpoints that leave, whether or not a file names this source. What the file
 * says of it is checked all the same.
 */
export const endpointNotificationSource = defineDataSource({
  type: "endpoint-notification-source",
  describe: "Notifies the producers and topology-extractor of new and removed endpoints, also without this plugin.",
  payload: "endpoints",
  create: () => ({ notifies: "endpoints" }),
});

/** scheduling 1.8. Of all kinds of objects, plugins here learn from pods alone. */
export const k8sNotificationSource = defineDataSource({
  type: "k8s-notification-source",
  describe: "Notifies topology-extractor of changed pods, also without this plugin.",
  payload: "pods",
  parameters: z.strictObject({
    group: z
      .literal("", {
        error: "names a group that Sluice does not watch; Sluice watches only pods, so leave group empty",
      })
      .default("")
      .describe("API group; only the empty one, that of pods."),
    version: z
      .literal("v1", { error: "names a version that Sluice does not watch for plugins; write v1" })
      .describe("API version; only `v1`."),
    kind: z
      .literal("Pod", { error: "names a kind that Sluice does not watch; write Pod" })
      .describe("Kind of the objects; only `Pod`."),
  }),
  create: () => ({ notifies: "pods" }),
});
