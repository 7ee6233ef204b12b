import type { MetricsPage } from "../../pool/endpoints/metrics-page.ts";

/** Flags that name a metric (epp-protocol 13.3). */
export const METRIC_FLAGS = [
  "total-queued-requests-metric",
  "total-running-requests-metric",
  "kv-cache-usage-percentage-metric",
  "lora-info-metric",
  "cache-info-metric",
] as const;

export type MetricFlag = (typeof METRIC_FLAGS)[number];

/** Metric specifications by flag; "" = not collected, absent = as built in. */
export type MetricNames = Readonly<Partial<Record<MetricFlag, string>>>;

type PageSettings = Pick<MetricsPage, "scheme" | "path" | "port" | "insecureSkipVerify">;

/** Flags that say where metrics pages are. */
export const PAGE_FLAGS = {
  scheme: "model-server-metrics-scheme",
  path: "model-server-metrics-path",
  port: "model-server-metrics-port",
  insecureSkipVerify: "model-server-metrics-https-insecure-skip-verify",
} as const satisfies Readonly<Record<keyof PageSettings, string>>;

/** How model servers are read, as far as flags say: what was not given is absent. */
export interface ModelServerSettings {
  /** In place of what the sources of the configuration say. */
  readonly page: PageSettings;
  readonly metrics: MetricNames;
}

/** What flags say of the scraping of metrics. */
export interface MetricsFlags {
  readonly modelServers: ModelServerSettings;
  /** Milliseconds, at least 50. */
  readonly refreshMetricsInterval: number;
  /** The interval was given: it holds for idle endpoints, too. */
  readonly fixedCadence: boolean;
}
