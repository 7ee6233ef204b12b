import { parseDocument } from "../../../src/base/document/parse.ts";
import { SluiceError } from "../../../src/base/inference/errors.ts";
import {
  defineAdmitter,
  defineDataSource,
  defineDecider,
  defineDiscovery,
  defineExtractor,
  defineFairnessPolicy,
  defineFilter,
  defineOrderingPolicy,
  defineParser,
  definePicker,
  defineProducer,
  defineProfileHandler,
  defineRequestHeaderProcessor,
  defineRequestHook,
  defineSaturationDetector,
  defineScorer,
  defineScreener,
  defineUsageLimitPolicy,
} from "../../../src/base/plugin/define.ts";
import { z } from "../../../src/base/plugin/index.ts";
import { columnKey } from "../../../src/base/plugin/keys.ts";
import type { DataSource, PluginDefinition } from "../../../src/base/plugin/kinds.ts";
import { PluginRegistry } from "../../../src/base/plugin/registry.ts";
import type { EffectiveConfig } from "../../../src/picker/config/effective.ts";
import { type LoadedConfig, type LoadOptions, loadDetailed } from "../../../src/picker/config/load.ts";

// Plugins that do nothing, for tests of what a configuration makes of them.

const MATCHED = columnKey("prefix-matched-blocks");
const LOAD = columnKey("in-flight-requests");
const NOBODY = columnKey("nobody-writes-this");
const [HOT, COLD] = [columnKey("hot"), columnKey("cold")];

const scorer = (type: string, more: Partial<Parameters<typeof defineScorer>[0]> = {}) =>
  defineScorer({ type, describe: "", create: () => ({ score() {} }), ...more });
const filter = (type: string) => defineFilter({ type, describe: "", create: () => ({ filter() {} }) });
const picker = (type: string) =>
  definePicker({
    type,
    describe: "",
    parameters: z.object({ maxNumOfEndpoints: z.number().int().default(1) }),
    create: () => ({ maxNumOfEndpoints: 1, pick: () => 1 }),
  });
const producer = (type: string, produces: typeof HOT, more: Partial<Parameters<typeof defineProducer>[0]> = {}) =>
  defineProducer({ type, describe: "", produces: [produces], create: () => ({ produce() {} }), ...more });
const parser = (type: string) => defineParser({ type, describe: "", create: () => ({ parsers: [] }) });
const ordering = (type: string) => defineOrderingPolicy({ type, describe: "", create: () => ({ rank: () => 0 }) });
const fairness = (type: string) =>
  defineFairnessPolicy({
    type,
    describe: "",
    create: () => ({
      choice() {
        throw new Error("no flow is chosen here");
      },
    }),
  });
const usageLimit = (type: string) =>
  defineUsageLimitPolicy({
    type,
    describe: "",
    parameters: z.strictObject({ threshold: z.number().default(1) }),
    create: () => ({ limit() {} }),
  });
const handler = { pick: () => [], processResults: () => "" };
const producerName = z.strictObject({ prefixMatchInfoProducerName: z.string().optional() });
const SOURCE: DataSource = {
  scheme: "http",
  path: "/metrics",
  port: undefined,
  insecureSkipVerify: true,
  caCertPath: "",
  clientCertPath: "",
  clientKeyPath: "",
  interval: undefined,
};

/** One or more plugin types of every kind. */
export const DEFINITIONS = [
  scorer("queue-scorer"),
  scorer("kv-cache-utilization-scorer"),
  scorer("active-request-scorer", {
    optional: [LOAD],
    parameters: z.strictObject({ inFlightLoadProducerName: z.string().optional() }),
  }),
  scorer("lora-affinity-scorer"),
  scorer("token-load-scorer", {
    optional: [LOAD],
    parameters: z.strictObject({ queueThresholdTokens: z.number().int().positive().default(4_194_304) }),
  }),
  scorer("prefix-cache-scorer", {
    requires: [MATCHED],
    parameters: producerName.extend({ matchLengthWeight: z.number().max(1).default(0) }),
  }),
  scorer("hungry-scorer", { requires: [NOBODY] }),
  scorer("hot-scorer", { requires: [HOT] }),
  filter("label-selector-filter"),
  filter("utilization-filter"),
  filter("decision-tree-filter"),
  picker("max-score-picker"),
  picker("round-robin-picker"),
  producer("approx-prefix-cache-producer", MATCHED, {
    parameters: z.strictObject({ blockSizeTokens: z.number().int().min(1).default(16) }),
  }),
  producer("inflight-load-producer", LOAD),
  producer("hot-producer", HOT, { optional: [COLD] }),
  producer("cold-producer", COLD, { optional: [HOT] }),
  defineProfileHandler({ type: "single-profile-handler", describe: "", create: () => handler }),
  defineProfileHandler({
    type: "header-profile-handler",
    describe: "",
    parameters: z.strictObject({ defaultProfile: z.string().default("decode") }),
    create: () => handler,
  }),
  defineProfileHandler({
    type: "stage-handler",
    describe: "",
    parameters: z.strictObject({
      profiles: z.strictObject({ decode: z.string().default("decode") }).optional(),
      deciders: z.strictObject({ prefill: z.string().default("") }).optional(),
    }),
    references: ({ deciders }) =>
      deciders?.prefill ? [{ path: ["deciders", "prefill"], name: deciders.prefill, kind: "decider" }] : [],
    companions: () => [
      { definition: defineRequestHook({ type: "stage-hook", describe: "", create: () => ({}) }), parameters: {} },
    ],
    create: () => handler,
  }),
  defineDecider({
    type: "prefix-decider",
    describe: "",
    parameters: producerName.extend({ after: z.string().default("") }),
    requires: [MATCHED],
    references: ({ after }) => (after === "" ? [] : [{ path: ["after"], name: after, kind: "decider" }]),
    create: () => ({ decide: () => true }),
  }),
  defineScreener({ type: "revision-screener", describe: "", create: () => ({ screen: () => undefined }) }),
  defineAdmitter({ type: "probabilistic-admitter", describe: "", create: () => ({ admit: () => undefined }) }),
  defineRequestHeaderProcessor({ type: "agent-identity", describe: "", create: () => ({ process: () => undefined }) }),
  defineSaturationDetector({
    type: "utilization-detector",
    describe: "",
    parameters: z.strictObject({ queueDepthThreshold: z.number().positive().default(5) }),
    create: () => ({ saturation: () => 0 }),
  }),
  ordering("fcfs-ordering-policy"),
  ordering("edf-ordering-policy"),
  fairness("global-strict-fairness-policy"),
  fairness("round-robin-fairness-policy"),
  fairness("token-deficit-fairness-policy"),
  usageLimit("static-usage-limit-policy"),
  usageLimit("soft-reflective-ceiling-policy"),
  defineDiscovery({
    type: "file-discovery",
    describe: "",
    parameters: z.strictObject({ path: z.string(), watchFile: z.boolean().default(false) }),
    create: ({ path, watchFile }) => ({ path, watchFile }),
  }),
  parser("openai-parser"),
  parser("passthrough-parser"),
  defineRequestHook({
    type: "cost-hook",
    describe: "",
    parameters: z.strictObject({ factor: z.number().default(1) }),
    create: () => ({}),
  }),
  defineDataSource({
    type: "metrics-data-source",
    describe: "",
    parameters: z.strictObject({ path: z.string().default("/metrics") }),
    create: () => SOURCE,
  }),
  defineExtractor({
    type: "core-metrics-extractor",
    describe: "",
    parameters: z.strictObject({ defaultEngine: z.string().default("vllm") }),
    create: () => ({ engineLabelKey: "", defaultEngine: "", engines: [] }),
  }),
] as PluginDefinition[];

export const REGISTRY = new PluginRegistry(DEFINITIONS);

/** What every file begins with: two lines. */
export const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

/** A file called c.yaml with that text. */
export function detailed(text: string, options: LoadOptions = {}): LoadedConfig {
  return loadDetailed(parseDocument(text, { file: "c.yaml" }), REGISTRY, options);
}

export function load(text: string, options: LoadOptions = {}): EffectiveConfig {
  return detailed(text, options).config;
}

/** The whole message of what is wrong with a file; `accepted` when it loads. */
export function messageFor(text: string, options: LoadOptions = {}): string {
  try {
    load(text, options);
  } catch (error) {
    if (error instanceof SluiceError) return error.message;
    throw error;
  }
  return "accepted";
}

/** What is wrong with a file, without the heading. */
export function problemsOf(text: string): readonly string[] {
  const message = messageFor(text);
  if (message === "accepted") throw new Error(message);
  const [first, ...rest] = message.split("\n");
  return rest.length > 0 ? rest.map((line) => line.trim()) : [first!.replace("invalid EndpointPickerConfig: ", "")];
}

/** Name, type and weight of each member of a profile, the first one by default. */
export function members({ profiles }: EffectiveConfig, at = 0): unknown[] {
  return profiles[at]!.plugins.map(({ name, weight, definition }) => [name, definition.type, weight]);
}
