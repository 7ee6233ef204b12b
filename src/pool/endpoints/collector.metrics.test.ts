import { expect, it } from "vitest";
import { render } from "../../base/telemetry/exposition.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { collectorMetrics } from "./collector.ts";

it("counts poll and extract errors under the published names and their twins (S-8, S-9)", () => {
  const registry = new MetricsRegistry();
  const counters = collectorMetrics(createMetrics(registry));
  counters.pollFailed();
  counters.pollFailed();
  counters.extractFailed();
  const page = render(registry);
  for (const prefix of ["llm_d_epp", "llm_d_inference_scheduler"]) {
    expect(page).toContain(`${prefix}_datalayer_poll_errors_total{source_type="metrics-data-source"} 2`);
    expect(page).toContain(
      `${prefix}_datalayer_extract_errors_total{source_type="metrics-data-source",extractor_type="core-metrics-extractor"} 1`,
    );
  }
});
