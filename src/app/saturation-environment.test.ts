import { describe, expect, it } from "vitest";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { type Logger, silentLogger } from "../telemetry/logger.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";
import { withSaturationEnvironment } from "./saturation-environment.ts";

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
    expect(detectorOf(env)).toEqual({ parameters, warnings: [] });
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
    const { parameters } = detectorOf({ SD_QUEUE_DEPTH_THRESHOLD: "9", SD_KV_CACHE_UTIL_THRESHOLD: "0.5" }, text);
    expect(parameters).toEqual({ ...DEFAULTS, queueDepthThreshold: 7, kvCacheUtilThreshold: 0.5 });
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
