import { describe, expect, it } from "vitest";
import { CHART_VECTORS } from "../../../test/support/chart-vectors.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { loadConfig } from "../../picker/config/load.ts";
import { metricsSettings } from "../../picker/core/metrics-settings.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { type FlagRow, parseGoFlags } from "../common/go-flags.ts";
import { EPP_FLAGS } from "./epp-flag-table.ts";
import { parseEppFlags } from "./epp-flags.ts";
import type { EppSettings } from "./epp-settings.ts";

/** A value of the flag that is not its default where it can be another, as a values file would have it. */
function sampleOf(row: FlagRow): string {
  switch (row.type) {
    case "bool":
      return row.default === "true" ? "false" : "true";
    case "int":
      return String(Math.max(8, row.min ?? 0));
    case "duration":
      return "7s";
    case "list":
      return "8000,8001";
    case "quantity":
      return "1Mi";
    case "string":
      return row.choices?.at(-1) ?? "some-text";
  }
}

describe("what published charts put on the command line (R-58, E-120, E-121, E-122)", () => {
  it.each(CHART_VECTORS)("$from", ({ args, env, settings, warned }) => {
    const parsed = parseEppFlags(args, env) as EppSettings;
    expect(parsed).toMatchObject(settings);
    expect(parsed.warnings.map((warning) => /^--(\S+)/.exec(warning)?.[1] ?? warning)).toEqual(warned);
  });

  it("covers each chart and each model server type that is given metrics by flags", () => {
    const all = CHART_VECTORS.map(({ from }) => from).join("\n");
    for (const part of [
      "v0.3.0",
      "v1.0.0",
      "v1.2.1",
      "v1.4.0",
      "v1.5.0",
      "llm-d-router-gateway",
      "llm-d-router-standalone",
    ])
      expect(all).toContain(part);
    for (const type of ["sglang", "triton-tensorrt-llm", "trtllm-serve"]) expect(all).toContain(type);
  });

  it.each(CHART_VECTORS.filter(({ config }) => config !== undefined))(
    "$from, with its configuration, reads the pages of its model servers",
    ({ from, args, env, config }) => {
      const pages = {
        sglang: "sglang:num_queue_reqs 1\nsglang:num_running_reqs 2\nsglang:token_usage 0.5\n",
        "triton-tensorrt-llm": `nv_trt_llm_request_metrics{request_type="waiting"} 1
nv_trt_llm_request_metrics{request_type="scheduled"} 2
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} 0.5
`,
        "trtllm-serve":
          "trtllm_num_requests_waiting 1\ntrtllm_num_requests_running 2\ntrtllm_kv_cache_utilization 0.5\n",
        vllm: "vllm:num_requests_waiting 1\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n",
      };
      const type = Object.keys(pages).find((name) => from.includes(name)) ?? "vllm";
      const settings = parseEppFlags(args, env) as EppSettings;
      const parts = { clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger };
      const loaded = loadConfig(parseDocument(config!, { file: "default-plugins.yaml" }), PLUGIN_REGISTRY);
      const { dialects, metricsPage } = metricsSettings(loaded, settings, parts);
      const page = Buffer.from(pages[type as keyof typeof pages]);
      const { metrics } = dialects.of({}).createReader().read(page, page.length, UNKNOWN_METRICS, 0);
      expect(metrics).toMatchObject({ waiting: 1, running: 2, kvUsage: 0.5 });
      expect(metricsPage.path).toBe(type === "trtllm-serve" ? "/prometheus/metrics" : "/metrics");
    },
  );

  it.each(EPP_FLAGS)(
    "--$name means the same as a word of its own, as charts of v1.5 render a map, and after =",
    (row) => {
      const sample = sampleOf(row);
      const read = (...args: readonly string[]) => parseGoFlags([...args, "--pool-name=behind"], EPP_FLAGS, {});
      const joined = read(`--${row.name}=${sample}`);
      expect(read(`--${row.name}`, sample).values).toEqual(joined.values);
      expect(read(`-${row.name}`, sample).values).toEqual(joined.values);
      expect(joined.values["pool-name"]).toBe("behind");
    },
  );

  it.each(EPP_FLAGS.filter(({ type }) => type === "bool"))("--$name alone means true", ({ name }) => {
    expect(parseGoFlags([`--${name}`, "--pool-name=behind"], EPP_FLAGS, {}).values).toMatchObject({
      [name]: true,
      "pool-name": "behind",
    });
  });
});
