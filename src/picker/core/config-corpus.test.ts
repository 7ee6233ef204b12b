import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { type ConfiguredPlugin, type EffectiveBand, flowControlMeaning } from "../config/effective.ts";
import { explainConfig } from "../config/explain.ts";
import { explainText } from "../config/explain-text.ts";
import { configFingerprint } from "../config/fingerprint.ts";
import { type LoadedConfig, loadDetailed } from "../config/load.ts";
import { meaningOf, migrateText } from "../config/migrate-text.ts";
import { currentType, whyNotYet } from "../config/published.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { instancesOf, planOf } from "./plan.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

// Files as each release of the reference had them (scheduling 4.6, appendix C), in our words, and our own examples. What a file
// must do stands in its first comment.

const ROOT = join(import.meta.dirname, "..", "..", "..");
const CORPUS = join(ROOT, "test", "corpus", "config");
const FILES = readdirSync(CORPUS).map((name) => ({ name, text: readFileSync(join(CORPUS, name), "utf8") }));
const EXAMPLES = ["config.yaml", "legacy-v0.3.yaml", "sticky-until-saturated.yaml"].map((name) => ({
  name: `examples/${name}`,
  text: readFileSync(join(ROOT, "examples", name), "utf8"),
}));

const load = (text: string): LoadedConfig => loadDetailed(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY);

function refusal(text: string): string | undefined {
  try {
    load(text);
    return undefined;
  } catch (error) {
    if (error instanceof SluiceError) return error.message;
    throw error;
  }
}

const expectationOf = (text: string) => /Expect: (.*)/.exec(text)?.[1] ?? "loads.";
const loading = [...FILES, ...EXAMPLES].filter(({ text }) => refusal(text) === undefined);

/** What runs with a configuration. */
function planFor({ config }: LoadedConfig): SchedulingPlan {
  const parts = { clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger };
  return planOf(config, instancesOf(config, parts));
}

function running(loaded: LoadedConfig): unknown {
  const { config } = loaded;
  const plan = planFor(loaded);
  const { profiles, handler, screeners, admitters, headerProcessors, hooks, parsers, detector, dataSources } = config;
  const parameters = new Map(
    [...profiles.flatMap(({ plugins }) => plugins), ...config.producers].map((plugin) => [
      plugin.name,
      plugin.parameters,
    ]),
  );
  const shown = ({ name, type }: { readonly name: string; readonly type: string }) => [
    name,
    currentType(type),
    parameters.get(name) ?? PLUGIN_REGISTRY.get(type)!.parameters.parse({}),
  ];
  const named = ({ name, definition, parameters }: ConfiguredPlugin) => [
    name,
    currentType(definition.type),
    parameters,
  ];
  return {
    profiles: plan.profiles.map(({ name, filters, scorers, picker }) => ({
      name,
      filters: filters.map(shown),
      scorers: scorers.map((scorer) => [...shown(scorer), scorer.weight]),
      picker: shown(picker),
    })),
    handler: named(handler),
    producers: plan.producers.map(shown),
    others: [...screeners, ...admitters, ...headerProcessors, ...hooks, ...parsers, detector].map(named),
    flowControl: config.flowControl && flowControlMeaning(config.flowControl, named),
    discovery: config.discovery?.parameters,
    metrics: dataSources.map(({ source, extractors }) => [named(source), extractors.map(named)]),
  };
}

describe("configurations of every release (S-60, S-66, scheduling appendix C)", () => {
  it("are there", () => expect(FILES.length).toBeGreaterThan(20));

  it.each([...FILES, ...EXAMPLES].map((file) => [file.name, file.text] as const))("%s", (_name, text) => {
    const wanted = expectationOf(text);
    const problem = refusal(text);
    if (wanted === "loads.") expect(problem).toBeUndefined();
    else if (wanted === "not yet.") {
      // Until it is built: no other reason may be told.
      const [first = "", ...rest] = problem?.split("\n") ?? [];
      const problems = rest.length > 0 ? rest : [first];
      for (const one of problems) expect(one).toMatch(/c:\d+:\d+: [\w.[\]]+: .*is not supported yet: .*[;,]/);
    } else expect(problem).toBe(`invalid EndpointPickerConfig: c:${wanted.replace(/^refused /, "")}`);
  });
});

describe("flow control of published configurations", () => {
  const flowControlOf = (name: string) => load(FILES.find((file) => file.name === name)!.text).config.flowControl!;
  const shown = ({ orderingPolicy, fairnessPolicy, ...limits }: EffectiveBand) => [
    ...[limits.maxBytes, limits.maxRequests, limits.defaultRequestTTL],
    ...[orderingPolicy.definition.type, fairnessPolicy.definition.type],
  ];
  const [fcfs, strict] = ["fcfs-ordering-policy", "global-strict-fairness-policy"];
  const never = Number.POSITIVE_INFINITY;

  it("of tenants: bands, times and policies", () => {
    const flowControl = flowControlOf("head-flow-control-tenants.yaml");
    expect([...flowControl.bands].map(([priority, band]) => [priority, ...shown(band)])).toEqual([
      [100, 1e9, 2000, 10_000, fcfs, "round-robin-fairness-policy"],
      [0, 1e9, 5000, 30_000, "slo-deadline-ordering-policy", strict],
    ]);
    expect(shown(flowControl.defaultPriorityBand)).toEqual([1e9, 5000, 30_000, fcfs, strict]);
    expect(shown(flowControl.defaultNegativePriorityBand)).toEqual([256 * 1024 ** 2, 500, never, fcfs, strict]);
    expect(flowControl).toMatchObject({ maxRequests: 20_000, maxBytes: 4 * 1024 ** 3, noEndpointRequestTTL: 300_000 });
    expect(flowControl.usageLimitPolicy).toMatchObject({
      ...{ name: "keep-free", parameters: { minCeiling: 0.6, maxCeiling: 1, domain: "rank", shape: "linear" } },
    });
  });

  it("of v1.4: one band, and a limit over all", () => {
    const flowControl = flowControlOf("v1.4-flow-control-on.yaml");
    expect([...flowControl.bands].map(([priority, band]) => [priority, ...shown(band)])).toEqual([
      [10, 1e9, 5000, 60_000, fcfs, strict],
    ]);
    expect(flowControl).toMatchObject({ maxBytes: 1024 ** 3, maxRequests: never, noEndpointRequestTTL: 60_000 });
  });

  it("of programs: a policy for all bands, with the defaults of the reference", () => {
    const { bands, defaultPriorityBand, defaultNegativePriorityBand } = flowControlOf("v1.5-program-aware.yaml");
    expect(bands.size).toBe(0);
    expect(defaultNegativePriorityBand).toBe(defaultPriorityBand);
    expect(defaultPriorityBand.fairnessPolicy).toMatchObject({
      name: "program-aware-fairness",
      parameters: {
        ...{ strategy: "las", evictionTtlSeconds: 3600, evictionSweepSeconds: 300 },
        ...{ lasWeightService: 0.8, lasWeightHeadWait: 0.2, lasHalfLifeSeconds: 60 },
      },
    });
  });

  it("of soft ceilings: no time to live at all", () => {
    const { usageLimitPolicy, ...flowControl } = flowControlOf("head-soft-ceilings.yaml");
    expect(usageLimitPolicy.definition.type).toBe("soft-reflective-ceiling-policy");
    expect([flowControl.noEndpointRequestTTL, flowControl.defaultPriorityBand.defaultRequestTTL]).toEqual([
      never,
      never,
    ]);
  });
});

/** Every type that the reference publishes (scheduling 1.8, 3.7-3.17, 5.3, 6.6). */
const PUBLISHED = `
single-profile-handler disagg-profile-handler pd-profile-handler data-parallel-profile-handler header-profile-handler
slo-aware-profile-handler disagg-headers-handler prefill-header-handler prefix-based-pd-decider always-disagg-pd-decider
always-disagg-multimodal-decider max-score-picker random-picker weighted-random-picker queue-scorer
running-requests-size-scorer kv-cache-utilization-scorer lora-affinity-scorer prefix-cache-scorer load-aware-scorer
active-request-scorer token-load-scorer session-affinity-scorer no-hit-lru-scorer context-length-aware
mm-embeddings-cache-scorer latency-scorer predicted-latency-scorer precise-prefix-cache-scorer endpoint-attribute-scorer
header-label-affinity-scorer topology-affinity-scorer slo-aware-routing label-selector-filter by-label by-label-selector
decode-filter prefill-filter encode-filter session-affinity-filter utilization-filter endpoint-attribute-filter
prefix-cache-affinity-filter slo-headroom-tier-filter topology-affinity-filter header-based-testing-filter
disaggregatedset-rollout-screener approx-prefix-cache-producer inflight-load-producer session-id-producer token-producer
tokenizer mm-embeddings-cache-producer precise-prefix-cache-producer predicted-latency-producer burst-prefix-cache-producer
p2p-source-producer agent-identity request-attribute-reporter destination-endpoint-served-verifier latency-slo-admitter
probabilistic-admitter openai-parser anthropic-parser vllmhttp-parser passthrough-parser vllmgrpc-parser sglanghttp-parser
vertexai-parser utilization-detector concurrency-detector fcfs-ordering-policy edf-ordering-policy
slo-deadline-ordering-policy global-strict-fairness-policy round-robin-fairness-policy program-aware-fairness
static-usage-limit-policy priority-holdback-policy soft-reflective-ceiling-policy sheddable-eviction-filter
priority-then-time-eviction-order-policy metrics-data-source core-metrics-extractor model-server-protocol-metrics
models-data-source models-data-extractor dcgm-data-source dcgm-extractor topology-extractor k8s-notification-source
endpoint-notification-source file-discovery multicluster-file-discovery multicluster-queue-scorer
multicluster-kv-cache-utilization-scorer multicluster-prefix-cache-scorer multicluster-session-affinity-filter
multicluster-approx-prefix-cache-producer multicluster-metrics-data-source multicluster-metrics-extractor kv-cache-scorer slo-request-tracker slo-scorer
model-server-protocol-models lmetric-scorer eviction-sheddable-filter eviction-priority-then-time-ordering`.match(
  /\S+/g,
)!;

describe("the plugin types of the reference", () => {
  it.each(PUBLISHED)("%s exists, is taken without effect, or is refused with the reason", (type) => {
    const text = `apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: ${type}\n`;
    const problems = refusal(text)?.split("\n") ?? [];
    const reason = whyNotYet(type);
    if (reason === undefined) for (const problem of problems) expect(problem).not.toMatch(/plugin type/);
    else {
      // What exists by now has no reason any more.
      expect(PLUGIN_REGISTRY.get(type)).toBeUndefined();
      expect(problems).toEqual([
        `invalid EndpointPickerConfig: c:4:3: plugins[0].type: plugin type ${type} is not supported yet: ${reason}`,
      ]);
      // A remedy, unless there is none.
      if (reason.includes(";")) expect(reason).toMatch(/; .*\b(use|remove|keeps?|goe?s?|sheds) /);
    }
  });
});

describe("the newest form of each", () => {
  it.each(loading.map((file) => [file.name, file.text] as const))("%s", (_name, text) => {
    const { text: newest, notes } = migrateText(text, PLUGIN_REGISTRY, { file: "c" });
    const after = load(newest);
    expect(running(after)).toEqual(running(load(text)));
    expect(meaningOf(after)).toBe(meaningOf(load(text)));
    expect(configFingerprint(after.config)).toBe(configFingerprint(load(text).config));
    // Nothing of it is deprecated any more but types that no other replaces as they are, and nothing is left to do.
    expect(
      after.config.warnings.filter(
        (warning) =>
          !/(by-label|pd-profile-handler|data-parallel-profile-handler|disagg-headers-handler|precise-prefix-cache-scorer) is/.test(
            warning,
          ) && /deprecated|no effect: (there|metrics)|wins/.test(warning),
      ),
    ).toEqual([]);
    expect(after.envelope.apiVersion).toBe(
      /^apiVersion: llm-d\.ai\/v1$/m.test(text) ? "llm-d.ai/v1" : "llm-d.ai/v1alpha1",
    );
    expect(migrateText(newest, PLUGIN_REGISTRY, { file: "c" }).text).toBe(newest);
    if (notes.length > 0 || text.startsWith("{")) return;
    const dropped = ["# not needed"];
    for (const [comment] of text.matchAll(/(?<=^|\s)#.*$/gm))
      if (!dropped.includes(comment)) expect(newest).toContain(comment);
  });

  it("keeps order, comments and style", () => {
    const text = readFileSync(join(CORPUS, "v1.5-parser.yaml"), "utf8");
    expect(
      migrateText(text, PLUGIN_REGISTRY, { file: "c" }).text,
    ).toBe(`# v1.5: one parser, a detector by reference, floating weights. Expect: loads.
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: openai-parser
- type: queue-scorer
- type: active-request-scorer
- name: roomy
  type: utilization-detector
  parameters: {queueDepthThreshold: 12, kvCacheUtilThreshold: 0.9}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 1.25}
  - {pluginRef: active-request-scorer, weight: 0.75}
# The one API we serve.
requestHandler:
  parsers:
  - pluginRef: openai-parser
flowControl:
  saturationDetector:
    pluginRef: roomy # for bursts
`);
  });

  it("is JSON where JSON was given", () => {
    const { text } = migrateText(readFileSync(join(CORPUS, "v1.5-config.json"), "utf8"), PLUGIN_REGISTRY, {
      file: "c",
    });
    expect(JSON.parse(text)).toEqual({
      apiVersion: "llm-d.ai/v1alpha1",
      kind: "EndpointPickerConfig",
      plugins: [
        { type: "queue-scorer" },
        { type: "prefix-cache-scorer" },
        { type: "passthrough-parser" },
        { type: "approx-prefix-cache-producer", parameters: { blockSizeTokens: 256 } },
      ],
      requestHandler: { parsers: [{ pluginRef: "passthrough-parser" }] },
    });
  });

  it("says that comments went with the aliases", () => {
    const text = readFileSync(join(CORPUS, "v1.5-anchors.yaml"), "utf8");
    expect(migrateText(text, PLUGIN_REGISTRY, { file: "c" }).notes).toEqual([
      "c: the output has no comments, and aliases are expanded",
    ]);
  });
});

describe("the explanation of each", () => {
  it.each(loading.map((file) => [file.name, file.text] as const))("%s", (_name, text) => {
    const loaded = load(text);
    const producers = planFor(loaded).producers.map(({ name }) => name);
    const explained = explainConfig(loaded, producers);
    const spelt = explainText(explained);
    // It is a configuration that means the same, with nothing left to add.
    const again = load(spelt);
    expect(running(again)).toEqual(running(loaded));
    const twice = explainConfig(again, producers);
    expect(twice.config).toEqual(explained.config);
    expect(twice.automatic).toEqual([]);
    expect(Object.values(twice.origins).filter((origin) => !origin.startsWith("line "))).toEqual([]);
    // Each value says where it comes from.
    const values = spelt.split("\n").filter((line) => /^[^#]*: [^#]/.test(line));
    expect(values.length).toBeGreaterThan(10);
    for (const line of values) expect(line).toMatch(/ # (line \d+|default|migrated|made automatically)/);
  });

  it("is right about lines: each value told to come from a line stands on it", () => {
    const text = readFileSync(join(CORPUS, "v1.0-prefix.yaml"), "utf8");
    const lines = text.split("\n");
    const { config, origins } = explainConfig(load(text), []);
    let seen = 0;
    for (const [path, origin] of Object.entries(origins)) {
      const line = /^line (\d+)$/.exec(origin);
      if (line === null) continue;
      let value: unknown = config;
      for (const step of path.match(/\w+/g)!) value = (value as Record<string, unknown>)[step];
      expect(lines[Number(line[1]) - 1]).toContain(String(value));
      seen++;
    }
    expect(seen).toBeGreaterThan(8);
  });
});
