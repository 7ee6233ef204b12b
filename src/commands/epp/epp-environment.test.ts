import { describe, expect, it } from "vitest";
import { z } from "zod";
import { parseDocument } from "../../base/document/parse.ts";
import { defineSaturationDetector } from "../../base/plugin/define.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { environmentMarkdown, readEnvironment, withSaturationEnvironment } from "./epp-environment.ts";

describe("the environment (epp-protocol 13.4)", () => {
  it.each([
    [{}, true],
    [{ USE_STREAMING: "true" }, true],
    [{ USE_STREAMING: "false" }, false],
    [{ USE_STREAMING: "0" }, false],
    [{ USE_STREAMING: "" }, true],
  ])("%j", (env, streaming) => {
    expect(readEnvironment(env)).toEqual({ streaming, warnings: [] });
  });

  it("warns of a malformed value and goes on with the default", () => {
    const { streaming, warnings } = readEnvironment({ USE_STREAMING: "maybe" });
    expect(streaming).toBe(true);
    expect(warnings).toEqual([expect.stringMatching(/^environment variable USE_STREAMING is ignored: .*"maybe"/)]);
  });

  it("tells that old feature switches do nothing", () => {
    expect(readEnvironment({ ENABLE_EXPERIMENTAL_DATALAYER_V2: "false" }).warnings).toEqual([]);
    expect(readEnvironment({ ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER: "true" }).warnings).toEqual([
      "environment variable ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER has no effect: since v1.5 the configuration has this setting",
    ]);
  });

  it("is described", () => {
    expect(environmentMarkdown()).toContain("| `USE_STREAMING` | v0.3 | `true` |");
  });
});

function detectorOf(env: Record<string, string>, text?: string): { parameters: unknown; warnings: string[] } {
  const warnings: string[] = [];
  const log: Logger = { ...silentLogger, warn: (_, message) => void warnings.push(message) };
  const document = text === undefined ? undefined : parseDocument(text, { file: "config" });
  const config = withSaturationEnvironment(loadConfig(document, PLUGIN_REGISTRY), env, log);
  return { parameters: config.detector.parameters, warnings };
}

const DEFAULTS = { queueDepthThreshold: 5, kvCacheUtilThreshold: 0.8, metricsStalenessThreshold: 200, headroom: 0 };

describe("the saturation detector's environment (E-120, epp-protocol 13.4)", () => {
  it("changes the defaults", () => {
    expect(detectorOf({})).toEqual({ parameters: DEFAULTS, warnings: [] });
    const env = {
      SD_QUEUE_DEPTH_THRESHOLD: "9",
      SD_KV_CACHE_UTIL_THRESHOLD: "0.5",
      SD_METRICS_STALENESS_THRESHOLD: "1m",
    };
    const parameters = {
      ...DEFAULTS,
      queueDepthThreshold: 9,
      kvCacheUtilThreshold: 0.5,
      metricsStalenessThreshold: 60_000,
    };
    const deprecated = (name: string, parameter: string): string =>
      `environment variable ${name} is deprecated; write ${parameter} into the parameters of the utilization-detector`;
    expect(detectorOf(env)).toEqual({
      parameters,
      warnings: [
        deprecated("SD_QUEUE_DEPTH_THRESHOLD", "queueDepthThreshold"),
        deprecated("SD_KV_CACHE_UTIL_THRESHOLD", "kvCacheUtilThreshold"),
        deprecated("SD_METRICS_STALENESS_THRESHOLD", "metricsStalenessThreshold"),
      ],
    });
  });

  it("leaves what it does not concern as it is, down to the objects", () => {
    const config = loadConfig(undefined, PLUGIN_REGISTRY);
    expect(withSaturationEnvironment(config, { SD_QUEUE_DEPTH_THRESHOLD: " " }, silentLogger)).toBe(config);
    class Thresholds {}
    const definition = defineSaturationDetector({
      type: "mine",
      describe: "",
      parameters: z.object({}).transform(() => new Thresholds()),
      create: () => ({ saturation: () => 0 }),
    });
    const own = { ...config, detector: { definition, name: "mine", parameters: new Thresholds() } };
    const { detector } = withSaturationEnvironment(own, { SD_QUEUE_DEPTH_THRESHOLD: "9" }, silentLogger);
    expect(detector.parameters).toBeInstanceOf(Thresholds);
  });

  it("S-72: changes the detector of v1.0's rule, too, and says so where the configuration has another one", () => {
    const named = (type: string): string =>
      [
        "apiVersion: llm-d.ai/v1alpha1",
        "kind: EndpointPickerConfig",
        `plugins: [{type: queue-scorer}, {type: ${type}}]`,
        `flowControl: {saturationDetector: {pluginRef: ${type}}}`,
      ].join("\n");
    const env = { SD_QUEUE_DEPTH_THRESHOLD: "9" };
    expect(detectorOf(env, named("no-capacity-detector")).parameters).toMatchObject({ queueDepthThreshold: 9 });
    expect(detectorOf(env, named("concurrency-detector")).warnings).toEqual([
      "environment variable SD_QUEUE_DEPTH_THRESHOLD has no effect on a saturation detector of type concurrency-detector",
    ]);
  });

  it("yields to what the configuration says", () => {
    const text = [
      "apiVersion: llm-d.ai/v1alpha1",
      "kind: EndpointPickerConfig",
      "plugins:",
      "- {type: max-score-picker}",
      "- {type: utilization-detector, parameters: {queueDepthThreshold: 7}}",
      "flowControl: {saturationDetector: {pluginRef: utilization-detector}}",
    ].join("\n");
    const env = { SD_QUEUE_DEPTH_THRESHOLD: "9", SD_KV_CACHE_UTIL_THRESHOLD: "0.5" };
    const { parameters, warnings } = detectorOf(env, text);
    expect(parameters).toEqual({ ...DEFAULTS, queueDepthThreshold: 7, kvCacheUtilThreshold: 0.5 });
    expect(warnings[0]).toBe(
      "environment variable SD_QUEUE_DEPTH_THRESHOLD has no effect: the configuration sets queueDepthThreshold",
    );
  });

  it.each([
    ["SD_QUEUE_DEPTH_THRESHOLD", "many"],
    ["SD_QUEUE_DEPTH_THRESHOLD", "-1"],
    ["SD_QUEUE_DEPTH_THRESHOLD", "Infinity"],
    ["SD_KV_CACHE_UTIL_THRESHOLD", "80"],
    ["SD_METRICS_STALENESS_THRESHOLD", "200"],
    ["SD_METRICS_STALENESS_THRESHOLD", "-1s"],
  ])("reports %s=%s and keeps the default", (name, value) => {
    const warnings = [`environment variable ${name} is ignored: its value is not valid`];
    expect(detectorOf({ [name]: value })).toEqual({ parameters: DEFAULTS, warnings });
  });

  it("takes an empty value for none", () => {
    expect(detectorOf({ SD_QUEUE_DEPTH_THRESHOLD: " " })).toEqual({ parameters: DEFAULTS, warnings: [] });
  });
});
