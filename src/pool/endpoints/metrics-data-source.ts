import { z } from "zod";
import { defineDataSource } from "../../base/plugin/define.ts";
import { checkPair, insecure, interval, notesOf, path, port, scheme, TLS_FILES } from "./page-parameters.ts";

/** scheduling 1.2, 1.8 */
export const metricsDataSource = defineDataSource({
  type: "metrics-data-source",
  describe: "Fetches the metrics pages of the endpoints. Sluice reads its PEM files once, at the start.",
  parameters: z
    .strictObject({
      scheme: scheme("http").describe("Scheme of the metrics pages: http or https."),
      path: path("/metrics").describe("Path of the metrics pages."),
      port: port().optional().describe("Port of the metrics pages; absent = the endpoint's own."),
      insecureSkipVerify: insecure(true).describe("Read pages over https without checking the servers' certificates."),
      ...TLS_FILES,
      interval: interval(),
    })
    .superRefine(checkPair),
  notes: (settings) => notesOf(settings),
  create: ({ interval, port, ...settings }) => ({ ...settings, port, interval: interval || undefined }),
});
