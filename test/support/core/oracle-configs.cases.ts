import fc from "fast-check";
import type { SlowConfig } from "../scheduling/slow-config.cases.ts";
import { rarely } from "./oracle-stories.cases.ts";

// Random configurations of everything that decides and that the slow scheduler knows.

const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const prefixName = fc.constantFrom("", "approx-prefix-cache-producer", "second-index");
const loadName = fc.constantFrom("", "inflight-load-producer", "second-load");
const session = fc.oneof(
  fc.constant({}),
  fc.constant({ encodedEndpointHeaderConfig: { header: "X-Token" } }),
  fc.record({
    strategy: fc.constant("session_id"),
    profileName: fc.constantFrom("", "a", "prefill"),
    sessionIdConfig: fc.constantFrom({}, { sources: [{ header: "x-user" }, { header: "X-Session-Id" }] }),
  }),
);
const detectorLimits = {
  queueDepthThreshold: maybe(fc.constantFrom(1, 5, 8.5)),
  kvCacheUtilThreshold: maybe(fc.constantFrom(0.3, 0.8, 1)),
  headroom: maybe(fc.constantFrom(0, 0.15, 0.5)),
};
const labels = fc.record(
  {
    matchLabels: fc.constantFrom({}, { tier: "gold" }, { tier: "gold", "llm-d.ai/role": "decode" }),
    matchExpressions: fc.array(
      fc.constantFrom(
        { key: "tier", operator: "Exists" },
        { key: "tier", operator: "DoesNotExist" },
        { key: "tier", operator: "In", values: ["gold", "silver"] },
        { key: "tier", operator: "NotIn", values: ["silver"] },
        { key: "constructor", operator: "DoesNotExist" },
      ),
      { maxLength: 2 },
    ),
  },
  { requiredKeys: [] },
);
const SCORERS: Readonly<Record<string, fc.Arbitrary<object>>> = {
  "queue-scorer": fc.constant({}),
  "running-requests-size-scorer": fc.constant({}),
  "kv-cache-utilization-scorer": fc.constant({}),
  "lora-affinity-scorer": fc.constant({}),
  "prefix-cache-scorer": fc.record({
    prefixMatchInfoProducerName: prefixName,
    matchLengthWeight: maybe(fc.constantFrom(0, 0.5, 1)),
    matchLengthScaleTokens: maybe(fc.constantFrom(100, 512)),
  }),
  "load-aware-scorer": fc.record({ threshold: maybe(fc.constantFrom(-1, 0, 4, 7.5)) }),
  "active-request-scorer": fc.record({
    idleThreshold: maybe(fc.constantFrom(-3, 0, 2)),
    maxBusyScore: maybe(fc.constantFrom(-1, 0, 0.5, 1, 2)),
    inFlightLoadProducerName: loadName,
  }),
  "token-load-scorer": fc.record({
    queueThresholdTokens: maybe(fc.constantFrom(0, 500, 2000)),
    inFlightLoadProducerName: loadName,
  }),
  "session-affinity-scorer": session,
  "no-hit-lru-scorer": fc.record({
    lruSize: maybe(fc.constantFrom(0, 1, 3)),
    prefixMatchInfoProducerName: prefixName,
  }),
  "context-length-aware": fc.record({ label: maybe(fc.constant("lengths")), enableFiltering: fc.boolean() }),
  "header-label-affinity-scorer": fc.constant({ headerName: "x-tier", labelKey: "tier" }),
  "given-scorer": fc.constantFrom({ values: [null, -1, 0.3, 2] }, { values: [-0.5, null] }, { values: [1, 0.25] }),
};
/** Every scorer that there is. */
export const SCORER_TYPES: readonly string[] = Object.keys(SCORERS);

const FILTERS: Readonly<Record<string, fc.Arbitrary<object>>> = {
  "label-selector-filter": labels,
  "by-label-selector": labels,
  "by-label": fc.constantFrom(
    { label: "tier", validValues: ["gold"], allowsNoLabel: true },
    { label: "tier", validValues: ["gold", "silver"] },
    { label: "tier", allowsNoLabel: true },
  ),
  "decode-filter": fc.constant({}),
  "prefill-filter": fc.constant({}),
  "encode-filter": fc.constant({}),
  "session-affinity-filter": session,
  "utilization-detector": fc.record({
    ...detectorLimits,
    metricsStalenessThreshold: maybe(fc.constantFrom("20ms", "200ms", "1s")),
  }),
  "concurrency-detector": fc.record({
    maxConcurrency: maybe(fc.constantFrom(2, 4, 100)),
    maxTokenConcurrency: maybe(fc.constantFrom(100, 1500)),
    concurrencyMode: maybe(fc.constantFrom("requests", "tokens", "hybrid")),
    headroom: detectorLimits.headroom,
  }),
  "utilization-filter": fc.record({
    conditions: fc.array(
      fc.oneof(
        fc.record({ metric: fc.constantFrom("active-requests", "running-requests"), maxValue: fc.nat({ max: 5 }) }),
        fc.record({ metric: fc.constant("waiting-queue"), maxValue: fc.nat({ max: 12 }) }),
        fc.record({ metric: fc.constant("kv-cache-utilization"), maxValue: fc.constantFrom(0, 0.5, 0.9) }),
      ),
      { minLength: 1, maxLength: 2 },
    ),
    fallbackOnEmpty: maybe(fc.boolean()),
  }),
  "bounded-load-filter": fc.record({
    meanLoadFactor: maybe(fc.constantFrom(1.001, 1.25, 2)),
    minRequests: maybe(fc.constantFrom(1, 2)),
    inFlightLoadProducerName: loadName,
  }),
  "prefix-cache-affinity-filter": fc.record({
    affinityThreshold: maybe(fc.constantFrom(0, 0.5, 1)),
    explorationProbability: maybe(fc.constantFrom(0, 1)),
    maxTTFTPenaltyMs: maybe(fc.constantFrom(0, 1000, 1000)),
    peakPrefillThroughput: fc.constant(1000),
    prefixMatchInfoProducerName: prefixName,
  }),
};
const PRODUCERS: Readonly<Record<string, fc.Arbitrary<object>>> = {
  "approx-prefix-cache-producer": fc.record({
    autoTune: maybe(fc.boolean()),
    blockSizeTokens: maybe(fc.constantFrom(16, 64, 100)),
    blockSize: maybe(fc.constantFrom(96)),
    maxPrefixTokensToMatch: maybe(fc.constantFrom(0, 320)),
    maxPrefixBlocksToMatch: maybe(fc.constantFrom(0, 3)),
    lruCapacityPerServer: maybe(fc.constantFrom(2, 5)),
  }),
  "inflight-load-producer": fc.record({
    addEstimatedOutputTokens: maybe(fc.boolean()),
    outputRatio: maybe(fc.constantFrom(0, 0.3)),
    maxEstimatedOutputTokens: maybe(fc.constantFrom(20)),
    prefixMatchInfoProducerName: prefixName,
  }),
};
const PICKERS: Readonly<Record<string, fc.Arbitrary<object>>> = {
  "max-score-picker": fc.constant({}),
  "random-picker": fc.constant({}),
  "weighted-random-picker": fc.constant({}),
};

interface Named {
  readonly type: string;
  readonly parameters: object;
}

/** Plugins that need a history to show anything come more often. */
const HISTORIC = /^prefix-cache-|^session-affinity-/;

const oneOf = (types: Readonly<Record<string, fc.Arbitrary<object>>>): fc.Arbitrary<Named> =>
  fc.oneof(
    ...Object.entries(types).map(([type, parameters]) => ({
      weight: HISTORIC.test(type) ? 3 : 1,
      arbitrary: fc.record({ type: fc.constant(type), parameters }),
    })),
  );
const members = fc.record({
  filters: fc.oneof({ weight: 2, arbitrary: fc.constant<Named[]>([]) }, fc.array(oneOf(FILTERS), { maxLength: 3 })),
  scorers: fc.array(fc.record({ plugin: oneOf(SCORERS), weight: maybe(fc.constantFrom(0, 0.37, 1, 2, 3)) }), {
    maxLength: 5,
  }),
  picker: maybe(oneOf(PICKERS)),
});
const PROFILE_NAMES = ["a", "prefill", "c"];
const handler = fc.oneof(
  fc.record({
    type: fc.constant("header-profile-handler"),
    parameters: fc.constantFrom({ defaultProfile: "a" }, { headerName: "X-Stage", defaultProfile: "c" }),
  }),
  fc.record({
    type: fc.constant("script-handler"),
    parameters: fc.record({
      stages: fc.constantFrom<string[][]>([["a"], ["prefill"]], [["prefill", "a"]], [["c"], ["a", "prefill"]]),
      primary: fc.constantFrom("a", "prefill"),
    }),
  }),
);

/** An EndpointPickerConfig with one profile, three, or none that it names. */
export const writtenConfig: fc.Arbitrary<SlowConfig> = fc
  .record({
    profiles: fc.oneof(
      { weight: 3, arbitrary: fc.tuple(members) },
      { weight: 1, arbitrary: fc.tuple(members, members, members) },
    ),
    handler,
    first: maybe(fc.tuple(PRODUCERS["approx-prefix-cache-producer"]!, PRODUCERS["inflight-load-producer"]!)),
    second: fc.tuple(PRODUCERS["approx-prefix-cache-producer"]!, PRODUCERS["inflight-load-producer"]!),
    screeners: fc.array(
      fc.constantFrom(
        { type: "label-screener", parameters: { label: "tier", value: "silver" } },
        { type: "label-screener", parameters: { label: "llm-d.ai/role", value: "encode" } },
      ),
      { maxLength: 2 },
    ),
    admitter: rarely(4, fc.record({ k: maybe(fc.constantFrom(0.5, 1e6)), power: maybe(fc.constant(1)) })),
    saysProfiles: fc.boolean(),
  })
  .map((parts) => {
    const plugins: { type: string; name: string; parameters: object }[] = [];
    const add = ({ type, parameters }: Named, name = `p${plugins.length}`): string => {
      plugins.push({ type, name, parameters });
      return name;
    };
    // The instances that parameters name, the default ones first.
    const [first, second] = [parts.first ?? [{}, {}], parts.second];
    for (const [i, type] of ["approx-prefix-cache-producer", "inflight-load-producer"].entries()) {
      add({ type, parameters: first[i]! }, type);
      add({ type, parameters: second[i]! }, i === 0 ? "second-index" : "second-load");
    }
    for (const screener of parts.screeners) add(screener);
    if (parts.admitter !== null) add({ type: "probabilistic-admitter", parameters: parts.admitter });
    if (parts.profiles.length > 1) add(parts.handler);
    const schedulingProfiles = parts.profiles.map(({ filters, scorers, picker }, at) => ({
      name: PROFILE_NAMES[at]!,
      plugins: [
        ...filters.map((filter) => ({ pluginRef: add(filter) })),
        ...scorers.map(({ plugin, weight }) => ({ pluginRef: add(plugin), weight })),
        ...(picker === undefined ? [] : [{ pluginRef: add(picker) }]),
      ],
    }));
    const all = { plugins, schedulingProfiles };
    // Without profiles there is one of all plugins (scheduling 4.3). House rule: a file that names but detectors says nothing of that.
    const [{ filters, scorers }] = parts.profiles;
    const says = scorers.length > 0 || filters.some(({ type }) => !type.endsWith("-detector"));
    const canDoWithout = parts.profiles.length === 1 && says;
    return canDoWithout && !parts.saysProfiles ? { plugins } : all;
  });
