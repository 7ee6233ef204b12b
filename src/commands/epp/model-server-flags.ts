import { SluiceError } from "../../base/inference/errors.ts";
import { METRIC_FLAGS, PAGE_FLAGS } from "../../picker/core/metrics-settings.ts";
import type { FlagRow, FlagValues } from "../common/go-flags.ts";
import type { EppSettings } from "./epp-settings.ts";

/** A flag that names a metric on the pages of endpoints that count as vLLM. */
function metric(what: string): Pick<FlagRow, "takes" | "help" | "deprecated"> & { readonly type: "string" } {
  return {
    type: "string",
    takes: "METRIC",
    help: `Metric of ${what}, as NAME or NAME{label=value,...}, for endpoints without an engine label; empty = not read.`,
    deprecated: "later releases of the reference have engineConfigs in the configuration instead; Sluice accepts both",
  };
}

/** The deprecation text of a flag that locates metrics pages. */
function sourceParameter(name: string): string {
  return `use the parameter ${name} of metrics-data-source in the configuration; this flag overrides it`;
}

/** Flags for the place and the metric names of the metrics pages (epp-protocol 13.2, 13.3; scheduling 1.4, 1.8). */
export const MODEL_SERVER_FLAGS = [
  {
    name: "model-server-metrics-scheme",
    takes: "http|https",
    type: "string",
    default: "http",
    since: "v1.0",
    deprecated: sourceParameter("scheme"),
    help: "Scheme of the model servers' metrics pages.",
  },
  {
    name: "model-server-metrics-path",
    aliases: ["modelServerMetricsPath"],
    takes: "PATH",
    type: "string",
    default: "/metrics",
    since: "v1.0",
    deprecated: sourceParameter("path"),
    help: "Path of the metrics pages.",
  },
  {
    name: "model-server-metrics-port",
    aliases: ["modelServerMetricsPort"],
    type: "int",
    min: 0,
    max: 65535,
    default: "0",
    since: "v1.0",
    deprecated: sourceParameter("port"),
    help: "Port of the metrics pages; 0 = the port of the endpoint.",
  },
  {
    name: "model-server-metrics-https-insecure-skip-verify",
    type: "bool",
    default: "true",
    since: "v1.0",
    deprecated: sourceParameter("insecureSkipVerify"),
    help: "Read pages over https without checking the servers' certificates.",
  },
  {
    ...metric("waiting requests"),
    name: "total-queued-requests-metric",
    aliases: ["totalQueuedRequestsMetric"],
    default: "vllm:num_requests_waiting",
    since: "v0.3",
  },
  {
    ...metric("running requests"),
    name: "total-running-requests-metric",
    aliases: ["totalRunningRequestsMetric"],
    default: "vllm:num_requests_running",
    since: "v1.5",
  },
  {
    ...metric("KV-cache utilisation (0 to 1)"),
    name: "kv-cache-usage-percentage-metric",
    aliases: ["kvCacheUsagePercentageMetric"],
    default: "vllm:kv_cache_usage_perc",
    since: "v0.3",
  },
  {
    ...metric("LoRA adapters"),
    name: "lora-info-metric",
    aliases: ["loraInfoMetric"],
    default: "vllm:lora_requests_info",
    since: "v0.3",
  },
  {
    ...metric("block size and number"),
    name: "cache-info-metric",
    aliases: ["cacheInfoMetric"],
    default: "vllm:cache_config_info",
    since: "v1.5",
  },
] as const satisfies readonly FlagRow[];

/**
 * The scrape settings of the flags.
 * @param explicit names of the flags on the command line
 * @throws SluiceError FLAG_VALUE
 */
export function modelServersOf(
  values: FlagValues<typeof MODEL_SERVER_FLAGS>,
  explicit: ReadonlySet<string>,
): EppSettings["modelServers"] {
  const scheme = values["model-server-metrics-scheme"];
  if (scheme !== "http" && scheme !== "https")
    throw new SluiceError(
      "FLAG_VALUE",
      `--model-server-metrics-scheme=${JSON.stringify(scheme.slice(0, 100))} is not valid: use http or https`,
    );
  const path = unquoted(values["model-server-metrics-path"]);
  if (!/^\/[!-~]{0,2047}$/.test(path))
    throw new SluiceError(
      "FLAG_VALUE",
      `--model-server-metrics-path=${JSON.stringify(path.slice(0, 100))} is not a path; write for example /metrics`,
    );
  const page = {
    scheme,
    path,
    port: values["model-server-metrics-port"],
    insecureSkipVerify: values["model-server-metrics-https-insecure-skip-verify"],
  };
  const given = Object.entries(page).filter(([key]) => explicit.has(PAGE_FLAGS[key as keyof typeof page]));
  const names = METRIC_FLAGS.filter((flag) => explicit.has(flag)).map((flag) => [flag, unquoted(values[flag])]);
  return { page: Object.fromEntries(given), metrics: Object.fromEntries(names) };
}

/** Charts of v1.5 write metrics and the path of sglang and trtllm-serve with quotes inside (api-resources 6B.2). */
function unquoted(text: string): string {
  return text.trim().replace(/^"(.*)"$/s, "$1");
}
