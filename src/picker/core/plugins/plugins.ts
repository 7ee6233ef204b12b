import type { PluginDefinition } from "../../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../../base/plugin/registry.ts";
import { coreMetricsExtractor } from "../../../pool/endpoints/core-metrics-extractor.ts";
import { fileDiscovery, multiclusterFileDiscovery } from "../../../pool/endpoints/file-discovery.ts";
import { metricsDataSource } from "../../../pool/endpoints/metrics-data-source.ts";
import { PARSER_PLUGINS } from "../../apis/families.ts";
import { FLOW_POLICIES } from "../../flowcontrol/policies/policies.ts";
import {
  concurrencyDetector,
  neverSaturatedDetector,
  noCapacityDetector,
  utilizationDetector,
} from "../../flowcontrol/saturation-detectors.ts";
import { SCHEDULING_PLUGINS } from "../../scheduling/plugins/index.ts";

/** Every plugin type that a configuration may name. */
export const PLUGINS: readonly PluginDefinition[] = [
  ...SCHEDULING_PLUGINS,
  ...PARSER_PLUGINS,
  utilizationDetector,
  concurrencyDetector,
  neverSaturatedDetector,
  noCapacityDetector,
  ...FLOW_POLICIES,
  fileDiscovery,
  multiclusterFileDiscovery,
  metricsDataSource,
  coreMetricsExtractor,
];

export const PLUGIN_REGISTRY = new PluginRegistry(PLUGINS);
