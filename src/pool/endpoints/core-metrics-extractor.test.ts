import { describe, expect, it } from "vitest";
import { pluginContextOf } from "../../../test/support/plugin-context.ts";
import type { EngineExtractor } from "../../base/plugin/kinds.ts";
import { coreMetricsExtractor } from "./core-metrics-extractor.ts";

function extractorOf(parameters: object): EngineExtractor {
  const parsed = coreMetricsExtractor.parameters.parse(parameters);
  return coreMetricsExtractor.create(parsed, pluginContextOf("extractor")) as EngineExtractor;
}

function problems(parameters: object): string[] {
  const { error } = coreMetricsExtractor.parameters.safeParse(parameters);
  return (error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
}

function notes(...engineConfigs: object[]): readonly string[] {
  return coreMetricsExtractor.notes!(coreMetricsExtractor.parameters.parse({ engineConfigs }));
}

const own = { name: "own", queuedRequestsSpec: "q" };

describe("core-metrics-extractor", () => {
  it("has the reference's defaults (scheduling 1.8)", () => {
    expect(extractorOf({})).toEqual({ engineLabelKey: "llm-d.ai/engine-type", defaultEngine: "vllm", engines: [] });
  });

  it("takes every key of an engine", () => {
    const engine = {
      name: "in-house",
      queuedRequestsSpec: 'srv_requests{state="queued"}',
      runningRequestsSpec: "srv_requests{state=running}",
      kvUsageSpec: "srv_kv_ratio",
      loraSpec: "srv_lora",
      cacheInfoSpec: "srv_cache",
      cacheBlockSizeLabelName: "size",
      cacheNumBlocksLabelName: "blocks",
      cacheBlockSizeSpec: "srv_block_size",
      cacheNumBlocksSpec: "srv_blocks",
    };
    const parameters = { engineLabelKey: "engine", defaultEngine: "in-house" };
    expect(extractorOf({ ...parameters, engineConfigs: [{ ...engine, customMetrics: [] }] })).toEqual({
      ...parameters,
      engines: [{ ...engine, customMetrics: [] }],
    });
  });

  it("makes custom metrics attributes of its own (scheduling 1.8)", () => {
    const customMetrics = [{ attributeKey: "depth", metricSpec: "my_depth{queue=a}" }];
    expect(extractorOf({ engineConfigs: [{ ...own, customMetrics }] }).engines[0]!.customMetrics).toEqual([
      { attributeKey: "depth/core-metrics-extractor", metricSpec: "my_depth{queue=a}" },
    ]);
    const given = coreMetricsExtractor.parameters.parse({ engineConfigs: [{ name: "own", customMetrics }] });
    expect(coreMetricsExtractor.endpointAttributes!(given)).toEqual(["depth/core-metrics-extractor"]);
    // An engine with nothing else is not one without metrics.
    expect(coreMetricsExtractor.notes!(given)).toEqual([]);
    const wrong = [
      { attributeKey: "", metricSpec: "" },
      { attributeKey: "b", metricSpec: "{" },
    ];
    const twice = [...customMetrics, ...customMetrics];
    const problemsOf = (list: object[]) => problems({ engineConfigs: [{ ...own, customMetrics: list }] });
    expect(problemsOf(wrong).map((text) => text.split(":")[0])).toEqual([
      "engineConfigs.0.customMetrics.0.attributeKey",
      "engineConfigs.0.customMetrics.0.metricSpec",
      "engineConfigs.0.customMetrics.1.metricSpec",
    ]);
    expect(problemsOf(twice)).toEqual([
      "engineConfigs.0.customMetrics.1.attributeKey: duplicate attributeKey depth; keep one of the two",
    ]);
  });

  it("reads cache sizes from the labels of vLLM where none are named, each for itself (S-16)", () => {
    const labels = (more: Record<string, string>) => {
      const { cacheBlockSizeLabelName: size, cacheNumBlocksLabelName: blocks } = extractorOf({
        engineConfigs: [{ ...own, cacheInfoSpec: "own_cache", ...more }],
      }).engines[0]!;
      return [size, blocks];
    };
    expect(labels({})).toEqual(["block_size", "num_gpu_blocks"]);
    expect(labels({ cacheBlockSizeLabelName: "page", cacheNumBlocksLabelName: "" })).toEqual([
      "page",
      "num_gpu_blocks",
    ]);
  });

  it("refuses engine names that are empty, reserved or there twice (scheduling 1.5)", () => {
    expect(problems({ engineConfigs: [{ name: " " }, { name: "default" }, { queuedRequestsSpec: "q" }] })).toEqual([
      "engineConfigs.0.name: engine name is empty",
      "engineConfigs.1.name: engine name default is reserved; choose another one",
      "engineConfigs.2.name: engine name is empty",
    ]);
    expect(problems({ engineConfigs: [own, { name: "vllm" }, own] })).toEqual([
      "engineConfigs.2.name: duplicate engine name own; keep one of the two",
    ]);
    expect(problems({ engineConfigs: Array.from({ length: 65 }, (_, i) => ({ name: `e${i}` })) })).toEqual([
      "engineConfigs: at most 64 engines",
    ]);
  });

  it("refuses a default engine that nobody knows, with the nearest that somebody does", () => {
    expect(problems({ defaultEngine: "sglnag" })).toEqual([
      'defaultEngine: defaultEngine "sglnag" is neither built in nor in engineConfigs; did you mean `sglang`?',
    ]);
    expect(problems({ defaultEngine: "llamafile", engineConfigs: [own] })).toEqual([
      'defaultEngine: defaultEngine "llamafile" is neither built in nor in engineConfigs; there are vllm, sglang, trtllm-serve, triton-tensorrt-llm, triton, own',
    ]);
    for (const known of ["own", "triton"]) expect(problems({ defaultEngine: known, engineConfigs: [own] })).toEqual([]);
  });

  it("refuses what is no metric specification, and shows it (S-10)", () => {
    const engine = { name: "e", queuedRequestsSpec: "m{a}", kvUsageSpec: "9m", loraSpec: "m{a=b" };
    expect(problems({ engineConfigs: [{ ...engine, runningRequestsSpec: 'm{a=b,c="d e"}' }] })).toEqual([
      'engineConfigs.0.queuedRequestsSpec: invalid label pair "a" in specification "m{a}"; write NAME or NAME{label=value,...}',
      'engineConfigs.0.kvUsageSpec: "9m" is not a valid metric specification; write NAME or NAME{label=value,...}',
      'engineConfigs.0.loraSpec: "m{a=b" is not a valid metric specification; write NAME or NAME{label=value,...}',
    ]);
    expect(problems({ engineConfigs: [{ ...own, cacheBlockSizeLabelName: "block size" }] })).toEqual([
      "engineConfigs.0.cacheBlockSizeLabelName: must be the name of a label: letters, digits and underscores",
    ]);
  });

  it("tells of engines of which less is read than it seems", () => {
    expect(notes(own)).toEqual([]);
    expect(notes({ name: "e" })).toEqual([
      "engine e names no metric, so Sluice does not know the load of its endpoints",
    ]);
    expect(notes({ ...own, cacheNumBlocksLabelName: "n" })).toEqual([
      "engine own: cacheBlockSizeLabelName and cacheNumBlocksLabelName have no effect without cacheInfoSpec",
    ]);
    for (const labels of [{}, { cacheNumBlocksLabelName: "n" }])
      expect(notes({ ...own, cacheInfoSpec: "c", ...labels })).toEqual([]);
  });
});
