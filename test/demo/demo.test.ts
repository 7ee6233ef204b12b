import { describe, expect, it } from "vitest";
import { onFreePorts } from "../support/free-port.ts";
import { sluice } from "../support/process.ts";
import { fixedLimit } from "../support/slowness.ts";

interface Policy {
  readonly name: string;
  readonly requests: number;
  readonly failed: number;
  readonly interrupted: number;
  readonly ttftMs: { readonly p50: number; readonly p90: number };
  readonly outputTokensPerSecond: number;
  readonly cacheHitRate: number;
}

describe("sluice demo", () => {
  it("fails no request while a server is killed, and finds more in the caches than round robin", async () => {
    const demo = await onFreePorts(async () => {
      const process = sluice("demo", "--duration", "20s", "--kill-at", "14s", "--json");
      const exit = await process.ended(90_000);
      expect(exit, process.stderr).toEqual({ code: 0, signal: null });
      return process;
    });
    const lines = demo.stdout.trim().split("\n");
    expect(lines).toHaveLength(1);
    const { policies } = JSON.parse(lines[0]!) as { policies: Policy[] };
    const [roundRobin, sluicePolicy] = policies as [Policy, Policy];
    expect([roundRobin.name, sluicePolicy.name]).toEqual(["round-robin", "sluice"]);
    expect(sluicePolicy.requests).toBe(roundRobin.requests);
    expect(sluicePolicy.requests).toBeGreaterThan(80);
    expect([roundRobin.failed, sluicePolicy.failed], demo.stderr).toEqual([0, 0]);
    expect(sluicePolicy.cacheHitRate).toBeGreaterThan(roundRobin.cacheHitRate);
    expect(sluicePolicy.outputTokensPerSecond).toBeGreaterThan(0);
    expect(demo.stderr).toMatch(/server-\d killed \(pid \d+\)/);
    const first = Number(/first request completed ([\d.]+) s after the start/.exec(demo.stderr)?.[1]);
    process.stdout.write(`demo: first request completed after ${first} s\n`);
    expect(first).toBeLessThan(fixedLimit(30_000) / 1000);
  });
});
