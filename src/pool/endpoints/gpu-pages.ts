import { z } from "zod";
import { defineDataSource, defineExtractor } from "../../base/plugin/define.ts";
import { ExpositionReader, type ExpositionSample } from "../../base/telemetry/exposition-reader.ts";
import { insecure, interval, NO_TLS_FILES, notesOf, path, port, scheme } from "./page-parameters.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { SideReader } from "./side-pages.ts";

/** Port of NVIDIA's DCGM exporter. */
const DCGM_PORT = 9400;

/** scheduling 1.8 */
export const dcgmDataSource = defineDataSource({
  type: "dcgm-data-source",
  describe:
    "Fetches for each endpoint the metrics page of an NVIDIA DCGM exporter, which runs in its pod or on its node.",
  payload: "gpu-metrics",
  parameters: z.strictObject({
    scheme: scheme("http").describe("Scheme of the exporters' pages: http or https."),
    path: path("/metrics").describe("Path of the exporters' pages."),
    port: port().default(DCGM_PORT).describe("Port of the exporters."),
    insecureSkipVerify: insecure(true).describe(
      "Read pages over https without checking the exporters' certificates; false checks them against the system's authorities.",
    ),
    useNodeAddress: z
      .boolean("useNodeAddress must be true or false")
      .default(false)
      .describe("The exporter runs on the node (a DaemonSet); false = in the pod of the endpoint."),
    interval: interval(),
  }),
  notes: (settings) => notesOf({ ...settings, ...NO_TLS_FILES }),
  create: ({ interval, ...settings }) => ({ ...settings, ...NO_TLS_FILES, interval: interval || undefined }),
});

/** The attribute that the extractor writes (scheduling 1.8). */
export const GPU_UTILIZATION = "GPUUtilization/dcgm-extractor";

/** scheduling 1.8 */
export const dcgmExtractor = defineExtractor({
  type: "dcgm-extractor",
  describe:
    "Reads the attribute `GPUUtilization` (0 to 1) of an endpoint from the page of a DCGM exporter: the value of the busiest GPU of its pod.",
  payload: "gpu-metrics",
  endpointAttributes: () => [GPU_UTILIZATION],
  create: () => ({ reads: "gpu-metrics" }),
});

const METRIC = "DCGM_FI_DEV_GPU_UTIL";

/**
 * Reads `DCGM_FI_DEV_GPU_UTIL`, percent. On a page of a whole node the label `pod` says whose GPU a sample is; samples without
 * it count for every endpoint that reads the page.
 */
export class GpuReader implements SideReader {
  readonly #reader = new ExpositionReader([METRIC]);

  read(page: Uint8Array, length: number, endpoint: PoolEndpoint): readonly string[] {
    const pod = podOf(endpoint);
    let busiest = Number.NaN;
    this.#reader.read(page, length, ({ type, value, labels }: ExpositionSample) => {
      if (type === "histogram" || type === "summary" || !(value >= 0 && value <= 100)) return;
      const of = labels.get("pod");
      if (of !== undefined && of !== "" && of !== pod) return;
      if (!(value <= busiest)) busiest = value;
    });
    if (Number.isNaN(busiest)) return [`${METRIC} of ${pod}`];
    endpoint.attributes.set(GPU_UTILIZATION, busiest / 100);
    return [];
  }

  forget(endpoint: PoolEndpoint): void {
    endpoint.attributes.delete(GPU_UTILIZATION);
  }
}

/** Name of the pod of an endpoint, whose own name is `<pod>-rank-<n>` in a cluster. */
function podOf({ name, rank }: PoolEndpoint): string {
  const suffix = `-rank-${rank}`;
  return name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
}
