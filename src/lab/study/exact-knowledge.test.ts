import { describe, expect, it } from "vitest";
import { CATALOGUE } from "./catalogue.ts";
import { simulateSettings } from "./simulate-settings.ts";
import { runStudy } from "./study.ts";

/** The hit rate of a policy on a small cache, in a short run. */
async function hits(policy: string, kvBlocks: number): Promise<number> {
  const asked = simulateSettings(
    ["b2b-saas"],
    { policy: [policy], seeds: "1", rate: ["20"], duration: "8s", servers: "4", cold: true },
    CATALOGUE,
  );
  const workloads = asked.workloads.map((planned) => ({
    ...planned,
    preset: { ...planned.preset, config: { ...planned.preset.config, kvBlocks } },
  }));
  const { runs } = await runStudy({ ...asked, workloads });
  return runs[0]!.hitRate;
}

describe("policies that hear the caches of simulated servers", () => {
  it("find prefixes where the approximate index also does", async () => {
    const exact = await hits("default-precise", 20_000);
    expect(exact).toBeGreaterThan(0.2);
    expect(exact).toBeGreaterThanOrEqual((await hits("default", 20_000)) - 0.03);
  });

  it("know what a small cache has lost", async () => {
    expect(await hits("llm-d-precise", 3_000)).toBeGreaterThan(await hits("llm-d-defaults", 3_000));
  });
});
