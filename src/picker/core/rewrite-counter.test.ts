import { expect, it } from "vitest";
import { samplesOf } from "../../../test/support/core.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { rewriteCounter } from "./rewrite-counter.ts";

it("counts rewrites under both names, 1,000 model names apart (scheduling 8.5)", () => {
  const registry = new MetricsRegistry();
  const count = rewriteCounter(createMetrics(registry));
  for (let i = 0; i < 1002; i++) count("canary", `m${i}`, "v2");
  count("canary", "m7", "v2");
  const samples = samplesOf(render(registry));
  const value = (family: string, model: string) =>
    samples.get(`${family}{model_rewrite_name="canary",model_name="${model}",target_model="v2"}`);
  for (const family of ["llm_d_epp_model_rewrite_decisions_total", "inference_extension_model_rewrite_decisions_total"])
    expect(["m0", "m7", "m999", "m1000", "other"].map((model) => value(family, model))).toEqual([
      1,
      2,
      1,
      undefined,
      2,
    ]);
});
