import { fileDiscovery } from "../endpoints/file-discovery-plugin.ts";
import { PARSER_PLUGINS } from "../exchange/parsers/plugins.ts";
import { concurrencyDetector } from "../flowcontrol/concurrency-detector.ts";
import { neverSaturatedDetector } from "../flowcontrol/never-saturated-detector.ts";
import { utilizationDetector } from "../flowcontrol/utilization-detector.ts";
import type { PluginDefinition } from "../plugin/kinds.ts";
import { PluginRegistry } from "../plugin/registry.ts";
import { SCHEDULING_PLUGINS } from "../scheduling/plugins/index.ts";

/** Every plugin type that a configuration may name. */
export const PLUGINS: readonly PluginDefinition[] = [
  ...SCHEDULING_PLUGINS,
  ...PARSER_PLUGINS,
  utilizationDetector,
  concurrencyDetector,
  neverSaturatedDetector,
  fileDiscovery,
];

export const PLUGIN_REGISTRY = new PluginRegistry(PLUGINS);
