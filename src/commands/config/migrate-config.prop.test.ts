import fc from "fast-check";
import { expect, it } from "vitest";
import { stringify } from "yaml";
import { parseDocument } from "../../base/document/parse.ts";
import { type LoadedConfig, loadDetailed } from "../../picker/config/load.ts";
import { meaningOf, migrateText } from "../../picker/config/migrate-text.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";

const load = (text: string): LoadedConfig => loadDetailed(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY);

/** Some of the entries, each or not. */
const some = <T extends object>(entries: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(entries, { requiredKeys: [] });

const oldPrefix = some({
  hashBlockSize: fc.integer({ min: 1, max: 4096 }),
  blockSize: fc.integer({ min: 1, max: 512 }),
  blockSizeTokens: fc.constantFrom(16, 64, 200),
  autoTune: fc.boolean(),
  maxPrefixBlocksToMatch: fc.integer({ min: 0, max: 4096 }),
  maxPrefixTokensToMatch: fc.integer({ min: 0, max: 4096 }),
  lruCapacityPerServer: fc.integer({ min: 1, max: 40000 }),
});
const thresholds = some({
  queueDepthThreshold: fc.integer({ min: 1, max: 50 }),
  kvCacheUtilThreshold: fc.constantFrom(0.5, 0.9, 1),
  metricsStalenessThreshold: fc.constantFrom("50ms", "1s"),
});

/** A configuration in the words of any release, several at a time. */
const configuration = fc
  .record({
    apiVersion: fc.constantFrom("llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1"),
    gates: fc.subarray(["dataLayer", "prepareDataPlugins", "flowControl=false", "enableLegacyMetrics=true"]),
    scorer: fc.option(oldPrefix),
    producer: fc.option(
      some({ blockSize: fc.integer({ min: 1, max: 512 }), blockSizeTokens: fc.constantFrom(16, 99) }),
    ),
    detector: fc.option(fc.oneof(thresholds, fc.constant({ pluginRef: "tight" }))),
    current: fc.option(fc.constantFrom("tight", undefined)),
    parser: fc.option(fc.constantFrom("openai-parser", "passthrough-parser")),
    parsers: fc.option(fc.subarray(["openai-parser", "passthrough-parser"])),
    data: fc.option(fc.constant({})),
    hasProfile: fc.boolean(),
    taken: fc.boolean(),
  })
  .map(({ apiVersion, gates, scorer, producer, detector, current, parser, parsers, data, hasProfile, taken }) => ({
    ...(parser === null ? {} : { parser: { pluginRef: parser } }),
    ...(detector === null || Object.keys(detector).length === 0 ? {} : { saturationDetector: detector }),
    apiVersion,
    kind: "EndpointPickerConfig",
    ...(gates.length === 0 ? {} : { featureGates: gates }),
    plugins: [
      { type: "queue-scorer" },
      ...(scorer === null ? [] : [{ type: "prefix-cache-scorer", parameters: scorer }]),
      // With a producer of its own the scorer may have none of its parameters.
      ...(producer === null || scorer !== null ? [] : [{ type: "approx-prefix-cache-producer", parameters: producer }]),
      { name: "tight", type: "utilization-detector", parameters: { headroom: 0.5 } },
      ...(taken ? [{ type: "utilization-detector" }] : []),
      { type: "openai-parser" },
      { type: "passthrough-parser" },
    ],
    ...(hasProfile
      ? { schedulingProfiles: [{ name: "p", plugins: [{ pluginRef: "queue-scorer", weight: 1.5 }] }] }
      : {}),
    ...(current === null ? {} : { flowControl: current ? { saturationDetector: { pluginRef: current } } : {} }),
    ...(parsers === null ? {} : { requestHandler: { parsers: parsers.map((pluginRef) => ({ pluginRef })) } }),
    ...(data === null ? {} : { data }),
  }));

it("whatever the release, the newest form means the same, says nothing deprecated, and is its own newest form", () => {
  let rewritten = 0;
  fc.assert(
    fc.property(configuration, fc.constantFrom(0, 2, Number.POSITIVE_INFINITY), (value, flowLevel) => {
      const text =
        flowLevel === 0
          ? JSON.stringify(value)
          : stringify(value, { collectionStyle: flowLevel === 2 ? "flow" : "any" });
      const { text: newest } = migrateText(text, PLUGIN_REGISTRY, { file: "c" });
      const [before, after] = [load(text), load(newest)];
      expect(meaningOf(after)).toBe(meaningOf(before));
      expect(after.config.detector.parameters).toEqual(before.config.detector.parameters);
      expect(after.config.producers.map(({ parameters }) => parameters)).toEqual(
        before.config.producers.map(({ parameters }) => parameters),
      );
      expect(after.config.warnings.filter((warning) => !/^c:\d+:\d+: plugin \S+ has no effect/.test(warning))).toEqual(
        [],
      );
      expect(migrateText(newest, PLUGIN_REGISTRY, { file: "c" }).text).toBe(newest);
      if (newest !== text) rewritten++;
    }),
    { numRuns: 300 },
  );
  expect(rewritten).toBeGreaterThan(200);
});
