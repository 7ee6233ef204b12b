import type { PluginDefinition } from "../../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../../base/plugin/registry.ts";
import {
  multiclusterMetricsDataSource,
  multiclusterMetricsExtractor,
} from "../../../pool/endpoints/cluster-metrics.ts";
import { coreMetricsExtractor } from "../../../pool/endpoints/core-metrics-extractor.ts";
import { fileDiscovery, multiclusterFileDiscovery } from "../../../pool/endpoints/file-discovery.ts";
import { dcgmDataSource, dcgmExtractor } from "../../../pool/endpoints/gpu-pages.ts";
import { metricsDataSource } from "../../../pool/endpoints/metrics-data-source.ts";
import { modelsDataExtractor, modelsDataSource } from "../../../pool/endpoints/model-lists.ts";
import { endpointNotificationSource, k8sNotificationSource } from "../../../pool/endpoints/notification-sources.ts";
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
  multiclusterMetricsDataSource,
  multiclusterMetricsExtractor,
  dcgmDataSource,
  dcgmExtractor,
  modelsDataSource,
  modelsDataExtractor,
  endpointNotificationSource,
  k8sNotificationSource,
];

export const PLUGIN_REGISTRY = new PluginRegistry(PLUGINS);
