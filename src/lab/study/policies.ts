import { basename } from "node:path";
import { DEFAULT_CONFIG } from "../../picker/config/defaults.ts";
import type { ConfigSource } from "../../picker/core/config-source.ts";
import { DEFAULT_WITH_ROLES, FLOW_CONTROL_POLICIES } from "./flow-policies.ts";

/** The producer that hears the caches of the servers, as entries of `plugins`. */
const PRECISE = `- type: precise-prefix-cache-producer
  parameters: {speculativeIndexing: true}
`;

/**
 * A configuration with scorers, `type: weight`, and the built-in picker plugin.
 * @param more entries of `plugins` before the scorers
 */
function blend(name: string, weights: Readonly<Record<string, number>>, more = ""): ConfigSource {
  const types = Object.keys(weights);
  const plugins = [...types, "max-score-picker"].map((type) => `- type: ${type}\n`);
  const refs = types.map((type) => `  - {pluginRef: ${type}, weight: ${weights[type]}}\n`);
  return {
    configText: `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
${more}${plugins.join("")}schedulingProfiles:
- name: ${name}
  plugins:
${refs.join("")}  - {pluginRef: max-score-picker}
`,
  };
}

/**
 * The guide "optimized baseline" of llm-d (`guides/optimized-baseline/router`). Its gate of 286,720 tokens in flight is written
 * as the parameters of the pinned release: 18 s at 15,928 tokens/s are 286,704 tokens.
 */
const OPTIMIZED_BASELINE: ConfigSource = {
  configText: `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: token-load-scorer
- type: inflight-load-producer
- type: approx-prefix-cache-producer
  parameters: {maxPrefixTokensToMatch: 40960}
- type: prefix-cache-affinity-filter
  parameters: {affinityThreshold: 0.8, maxTTFTPenaltyMs: 18000, peakPrefillThroughput: 15928}
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: prefix-cache-affinity-filter
  - pluginRef: token-load-scorer
`,
};

/** All named policies, simplest first. */
export const POLICIES: readonly Policy[] = [
  {
    name: "round-robin",
    about: "each server in turn, as a plain Service does",
    rule() {
      let next = 0;
      return (loads) => next++ % loads.length;
    },
  },
  {
    name: "random",
    about: "a random server",
    rule: () => (loads, draw) => draw(loads.length),
  },
  {
    name: "least-request",
    about: "the less busy one of two random servers, as Envoy's least-request balancer does by default",
    rule: () => (loads, draw) => {
      const one = draw(loads.length);
      const other = draw(loads.length);
      return loads[other]! < loads[one]! ? other : one;
    },
  },
  {
    name: "least-active",
    about: "the server with the fewest requests that were sent and have not ended",
    source: blend("least-active", { "active-request-scorer": 1 }),
  },
  {
    name: "scraped-queue",
    about: "the server whose queue was shortest at the last scrape",
    source: blend("scraped-queue", { "queue-scorer": 1 }),
  },
  {
    name: "classic-blend",
    about: "the weights of the reference: queue 2, KV cache 2, prefix 3",
    source: blend("classic-blend", { "queue-scorer": 2, "kv-cache-utilization-scorer": 2, "prefix-cache-scorer": 3 }),
  },
  {
    name: "llm-d-defaults",
    about: "llm-d's router without a file: the weights of classic-blend",
    source: blend("default", { "queue-scorer": 2, "kv-cache-utilization-scorer": 2, "prefix-cache-scorer": 3 }),
  },
  {
    name: "llm-d-optimized-baseline",
    about:
      "llm-d's guide 'optimized baseline': the fewest tokens in flight among the servers with the prompt in cache, or among all if these are over 18 s slower",
    source: OPTIMIZED_BASELINE,
  },
  {
    name: "llm-d-precise",
    about: "the weights of llm-d-defaults; prefixes by the KV-cache events of the servers, which come 20 ms late",
    source: blend(
      "llm-d-precise",
      { "prefix-cache-scorer": 3, "queue-scorer": 2, "kv-cache-utilization-scorer": 2 },
      PRECISE,
    ),
  },
  {
    name: "default",
    about: "the built-in profile that runs without a file",
    source: {},
    disaggregated: DEFAULT_WITH_ROLES,
  },
  {
    name: "default-precise",
    about: "the built-in profile; prefixes by the KV-cache events of the servers, which come 20 ms late",
    source: { configText: DEFAULT_CONFIG.replace("plugins:\n", `plugins:\n${PRECISE}`) },
  },
  {
    name: "sticky-until-saturated",
    about: "the built-in profile of that name: the servers with the prompt in their cache, until they are saturated",
    source: { profile: "sticky-until-saturated" },
  },
  ...FLOW_CONTROL_POLICIES,
];

/** A configuration file as a policy with the name of the file. A study reads the file when it begins. */
export function filePolicy(file: string, allowExperimental = false): Policy {
  return { name: basename(file), about: `the configuration ${file}`, source: { configFile: file, allowExperimental } };
}

/** The part of a simulation that routes requests: a configuration for the scheduler, or a rule without one. */
export interface Policy {
  /** The name on the command line and in tables, such as `sticky-until-saturated`. */
  readonly name: string;
  /** A sentence for people. */
  readonly about: string;
  /** The configuration; undefined = the policy has a rule. */
  readonly source?: ConfigSource | undefined;
  /** The configuration for servers with roles; absent = the same. */
  readonly disaggregated?: ConfigSource | undefined;
  /** Creates a new rule for each run. */
  readonly rule?: (() => Rule) | undefined;
}

/**
 * Chooses without a scheduler, as a plain proxy does.
 * @param loads requests at each server that the rule knows of: sent and not ended
 * @param draw uniform integer in [0, bound)
 * @returns index of a server
 */
export type Rule = (loads: readonly number[], draw: (bound: number) => number) => number;
