import type { PluginRegistry } from "../../base/plugin/registry.ts";

const PREDICTOR = "it needs the latency predictor, which Sluice does not have yet";
const BLEND = "until then, use queue-scorer, kv-cache-utilization-scorer and prefix-cache-scorer";
const SLO = `its successors predicted-latency-producer and latency-scorer need the latency predictor, which Sluice does not have yet; ${BLEND}`;

/**
 * Plugin types of the reference releases that do not exist here yet (scheduling 1.8, 3.7-3.17, appendix C), each with the
 * reason and a remedy. A type that the process already has is accepted in spite of this list.
 */
const NOT_YET: ReadonlyMap<string, string> = new Map([
  // latency goals
  ["predicted-latency-producer", `${PREDICTOR}; ${BLEND}`],
  ["predicted-latency-scorer", `${PREDICTOR}; ${BLEND}`],
  ["latency-scorer", `${PREDICTOR}; ${BLEND}`],
  ["slo-headroom-tier-filter", `${PREDICTOR}; until then, use utilization-filter to avoid busy endpoints`],
  ["latency-slo-admitter", `${PREDICTOR}; until then, use probabilistic-admitter to shed load by saturation`],
  ["slo-aware-routing", SLO],
  ["slo-aware-profile-handler", SLO],
  ["slo-request-tracker", SLO],
  ["slo-scorer", SLO],
  // the caches of engines
  [
    "lmetric-scorer",
    "no scorer of Sluice multiplies tokens to compute by requests in flight; use token-load-scorer with prefix-cache-scorer instead",
  ],
  // rollouts
  [
    "disaggregatedset-rollout-screener",
    "it needs the revisions of a DisaggregatedSet, which Sluice does not watch yet; until then, use by-label to keep requests on one revision",
  ],
]);

/** Returns the reason why a type of the reference does not exist here yet, with a remedy; undefined for types of no release. */
export function whyNotYet(type: string): string | undefined {
  return NOT_YET.get(type);
}

const EVICTION =
  "with flowControl.enableEviction, flow control evicts requests of negative priority: the lowest priority first, then the newest";

/** Plugin types of published files that are accepted, though nothing here calls them, each with the reason. They take no parameters. */
const WITHOUT_EFFECT: ReadonlyMap<string, string> = new Map([
  ["sheddable-eviction-filter", EVICTION],
  ["priority-then-time-eviction-order-policy", EVICTION],
  // The names of v1.5.
  ["eviction-sheddable-filter", EVICTION],
  ["eviction-priority-then-time-ordering", EVICTION],
]);

/** The types that `whyNoEffect` knows. */
export const TYPES_WITHOUT_EFFECT: readonly string[] = [...WITHOUT_EFFECT.keys()];

/** Returns the reason why a published type has no effect; undefined for all others. */
export function whyNoEffect(type: string): string | undefined {
  return WITHOUT_EFFECT.get(type);
}

const TREE =
  "it was a step of the decision tree of v0.5; use decision-tree-filter: without parameters, it is the whole tree";

/** Plugin types that no release has had since v1.0, each with its replacement. */
const NO_MORE: ReadonlyMap<string, string> = new Map([
  ["low-queue-filter", TREE],
  ["least-queue-filter", TREE],
  ["least-kv-cache-filter", TREE],
  ["lora-affinity-filter", TREE],
]);

/** Returns the reason why a type of releases before v1.0 does not exist any more, with a remedy; undefined for all others. */
export function whyNoMore(type: string): string | undefined {
  return NO_MORE.get(type);
}

const IN_A_CACHE =
  "now belongs to precise-prefix-cache-producer; use that producer, with indexerConfig, tokenProcessorConfig and kvEventsConfig, and remove the other keys";
const IN_A_TREE = "is not supported any more: Sluice has only the tree of v0.3; remove it";
const OF_PREFIXES = "has no effect here: the producer of prefix matches has the block size; remove it";

/** Parameters in published files that the plugin does not take (any more, or yet), each with the reason. */
const PARAMETERS: ReadonlyMap<string, ReadonlyMap<string, string>> = new Map([
  [
    "prefix-cache-scorer",
    new Map([
      ["mode", IN_A_CACHE],
      ["kvCacheRedisAddr", IN_A_CACHE],
      ["indexerConfig", IN_A_CACHE],
      ["tokenProcessorConfig", IN_A_CACHE],
      ["kvEventsConfig", IN_A_CACHE],
    ]),
  ],
  [
    "decision-tree-filter",
    new Map([
      ["current", IN_A_TREE],
      ["nextOnSuccess", IN_A_TREE],
      ["nextOnFailure", IN_A_TREE],
      ["nextOnSuccessOrFailure", IN_A_TREE],
    ]),
  ],
  [
    "disagg-profile-handler",
    new Map([
      ["threshold", "is now a parameter of deciders; remove it, and name a decider in deciders.prefill"],
      ["hashBlockSize", OF_PREFIXES],
    ]),
  ],
]);

/** Returns the reason why a plugin does not take a parameter of published files, with a remedy; undefined for all others. */
export function whyNoParameter(type: string, key: string): string | undefined {
  return PARAMETERS.get(type)?.get(key);
}

/** Types that the reference calls alpha (scheduling 1.8, 3.7-3.15, 6.6). */
const EXPERIMENTAL_TYPES: ReadonlySet<string> = new Set([
  "header-profile-handler",
  "session-affinity-scorer",
  "session-affinity-filter",
  "utilization-filter",
  "endpoint-attribute-scorer",
  "endpoint-attribute-filter",
  "header-label-affinity-scorer",
  "topology-affinity-scorer",
  "topology-affinity-filter",
  "topology-extractor",
  "burst-prefix-cache-producer",
  "p2p-source-producer",
  "agent-identity",
  "disaggregatedset-rollout-screener",
  "dcgm-data-source",
  "dcgm-extractor",
  "priority-holdback-policy",
  "soft-reflective-ceiling-policy",
  "sheddable-eviction-filter",
  "priority-then-time-eviction-order-policy",
]);

/** Whether a type needs `--allow-experimental-plugins`. */
export function isExperimental(type: string): boolean {
  return EXPERIMENTAL_TYPES.has(type) || type.startsWith("multicluster-");
}

/** Former names of types, with the same parameters (scheduling 3.7, 3.10, 3.15, appendix C). */
const RENAMED_TYPES: ReadonlyMap<string, string> = new Map([
  ["tokenizer", "token-producer"],
  ["kv-cache-scorer", "kv-cache-utilization-scorer"],
  ["by-label-selector", "label-selector-filter"],
  ["model-server-protocol-metrics", "core-metrics-extractor"],
  ["model-server-protocol-models", "models-data-extractor"],
  ["prefill-header-handler", "disagg-headers-handler"],
]);

/** Returns the present name of a type. */
export function currentType(type: string): string {
  return RENAMED_TYPES.get(type) ?? type;
}

/** Returns the present name of a type, if it differs and exists here. */
export function renamedType(type: string, registry: PluginRegistry): string | undefined {
  const now = RENAMED_TYPES.get(type);
  return now === undefined || registry.get(now) === undefined ? undefined : now;
}
