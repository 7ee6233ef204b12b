import { describe, expect, it } from "vitest";
import { checksum, countBy, playNamed } from "../../../../test/support/simulator/workloads/workloads.cases.ts";

describe("the tenants workload", () => {
  // Ten times as long, so that shares are known to half a per cent.
  const sent = playNamed("tenants", { durationMs: 450_000 });
  const counts = countBy(sent, ({ request }) => request.tenant!);
  const shares = [...counts.values()].toSorted((a, b) => b - a).map((count) => count / sent.length);
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

  it("has 40 tenants, the largest with 16 % of the requests, the top ten with 63 %", () => {
    expect(counts.size).toBe(40);
    expect(Math.abs(shares[0]! - 0.16)).toBeLessThan(0.007);
    expect(Math.abs(sum(shares.slice(0, 10)) - 0.63)).toBeLessThan(0.01);
    expect(counts.get("tenant-1")! / sent.length).toBe(shares[0]);
    expect(shares.at(-1)!).toBeGreaterThan(0.005);
  });

  it("groups tenants into the top one, the next nine and all others", () => {
    const kinds = countBy(sent, ({ request }) => request.kind!);
    expect([...kinds.keys()].toSorted()).toEqual(["next nine", "other tenants", "top tenant"]);
    expect(kinds.get("top tenant")).toBe(counts.get("tenant-1"));
    expect(Math.abs(kinds.get("next nine")! / sent.length - 0.47)).toBeLessThan(0.01);
    const tenantsOf = (kind: string): number =>
      new Set(sent.filter(({ request }) => request.kind === kind).map(({ request }) => request.tenant)).size;
    expect([tenantsOf("top tenant"), tenantsOf("next nine"), tenantsOf("other tenants")]).toEqual([1, 9, 30]);
  });

  it("gives each tenant its own system prompt", () => {
    const systems = countBy(
      sent.slice(0, 4000),
      ({ request }) => `${request.tenant} ${checksum(request.prompt.subarray(0, 2000 * 4))}`,
    );
    expect(systems.size).toBe(40);
    expect(new Set([...systems.keys()].map((key) => key.split(" ")[1])).size).toBe(40);
  });
});
