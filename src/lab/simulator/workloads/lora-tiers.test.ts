import { describe, expect, it } from "vitest";
import { checksum, countBy, playNamed } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { workloadNamed } from "./catalogue.ts";

describe("the lora-tiers workload", () => {
  const sent = playNamed("lora-tiers", { rate: 180, durationMs: 100_000 });

  it("has fifteen adapters in tiers of five, 60, 30 and 10 % of the requests, each tier divided evenly", () => {
    const counts = countBy(sent, ({ request }) => `${request.kind} ${request.adapter}`);
    expect(counts.size).toBe(15);
    for (const [kind, first, share] of [
      ["high", 0, 0.12],
      ["medium", 5, 0.06],
      ["low", 10, 0.02],
    ] as const)
      for (let i = first; i < first + 5; i++)
        expect(Math.abs(counts.get(`${kind} adapter-${i}`)! / sent.length - share)).toBeLessThan(0.01);
  });

  it("has more adapters than a server has slots, and fewer than all servers have", () => {
    const { loraSlots, servers } = workloadNamed("lora-tiers")!;
    expect(loraSlots).toBe(3);
    expect(loraSlots! * servers).toBeGreaterThan(15);
  });

  it("shares no prompts", () => {
    expect(new Set(sent.map(({ request }) => checksum(request.prompt.subarray(0, 64)))).size).toBe(sent.length);
  });
});
