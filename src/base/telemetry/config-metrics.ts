import type { MetricTable } from "./metric-table.ts";

/** What the process runs by. */
export const CONFIG_METRICS = {
  configInfo: {
    type: "gauge",
    name: "sluice_config_info",
    help: "1 for the configuration in force, by its fingerprint, which decision records carry as well.",
    labels: ["hash"],
  },
  configReloadsTotal: {
    type: "counter",
    name: "sluice_config_reloads_total",
    help: "Changes of the configuration file, by what came of them: applied, refused.",
    labels: ["result"],
  },
  configRefused: {
    type: "gauge",
    name: "sluice_config_refused",
    help: "1 while the configuration file is refused and an older configuration stays in force.",
    labels: [],
  },
} as const satisfies MetricTable;
