import { describe, expect, it } from "vitest";
import { countBy, fingerprint, playNamed } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { POLICIES } from "../../study/policies.ts";
import { WORKLOADS, workloadNamed } from "./catalogue.ts";
import { NOISY_NEIGHBOUR } from "./noisy-neighbour.ts";

describe("the workloads of flow control", () => {
  it("name policies that exist", () => {
    const known = POLICIES.map(({ name }) => name);
    for (const { policies = [] } of WORKLOADS) for (const name of policies) expect(known).toContain(name);
    expect(WORKLOADS.filter(({ policies }) => policies !== undefined).map(({ name }) => name)).toEqual([
      ...["noisy-neighbour", "priority-mix", "realtime-with-batch", "burst", "scale-from-zero", "disaggregated"],
    ]);
  });

  it("noisy-neighbour: one of five tenants sends ten times what each of the others sends", () => {
    const counts = countBy(
      playNamed("noisy-neighbour", { rate: 10, durationMs: 40_000 }),
      ({ request }) => request.tenant!,
    );
    expect([...counts.keys()].toSorted()).toEqual(["noisy", "quiet-1", "quiet-2", "quiet-3", "quiet-4"]);
    for (const [tenant, count] of counts) {
      const mean = tenant === "noisy" ? 4000 : 400;
      expect(Math.abs(count - mean)).toBeLessThan(4 * Math.sqrt(mean));
    }
  });

  it("noisy-neighbour: the others send the same, whatever becomes of the noisy one", () => {
    const quiet = (answers: () => number | "rejected"): string[] =>
      playNamed("noisy-neighbour", { rate: 5, durationMs: 10_000, answers })
        .filter(({ request }) => request.kind === "quiet")
        .map(({ request, at }) => fingerprint(request, at));
    expect(quiet(() => 5)).toEqual(quiet(() => "rejected"));
    expect(NOISY_NEIGHBOUR.policies).toContain("token-fairness");
  });

  it("priority-mix: 20 % urgent, 50 % normal, 30 % sheddable, and every tenant has each", () => {
    const sent = playNamed("priority-mix", { rate: 200, durationMs: 20_000 });
    const counts = countBy(sent, ({ request }) => `${request.kind} ${request.priority}`);
    expect([...counts.keys()].toSorted()).toEqual(["normal 0", "sheddable -10", "urgent 100"]);
    expect(counts.get("urgent 100")! / sent.length).toBeCloseTo(0.2, 1);
    expect(counts.get("sheddable -10")! / sent.length).toBeCloseTo(0.3, 1);
    expect(countBy(sent, ({ request }) => `${request.kind} ${request.tenant}`).size).toBe(9);
  });

  it("realtime-with-batch: the traffic of realtime-and-batch with priorities and fairness IDs", () => {
    const bare = (name: string) =>
      playNamed(name, { durationMs: 8000 }).map(({ request, at }) => {
        const { priority, tenant, ...rest } = request;
        return fingerprint(rest, at);
      });
    expect(bare("realtime-with-batch")).toEqual(bare("realtime-and-batch"));
    const classes = countBy(
      playNamed("realtime-with-batch", { durationMs: 4000 }),
      ({ request }) => `${request.kind} ${request.tenant} ${request.priority}`,
    );
    expect([...classes.keys()].toSorted()).toEqual(["batch batch -10", "realtime realtime 100"]);
  });

  it("burst: all in one moment, as many as the rate says", () => {
    const sent = playNamed("burst", { rate: 800 });
    expect(sent).toHaveLength(800);
    expect(new Set(sent.map(({ at }) => at))).toEqual(new Set([1000]));
    expect(countBy(sent, ({ request }) => request.tenant!).size).toBe(4);
  });

  it("scale-from-zero: the servers come during the arrivals", () => {
    const { serversAtMs, durationMs } = workloadNamed("scale-from-zero")!;
    const sent = playNamed("scale-from-zero", { rate: 20 });
    expect(serversAtMs).toBeLessThan(durationMs);
    expect(sent.filter(({ at }) => at < serversAtMs!).length).toBeGreaterThan(300);
    expect(sent.filter(({ at }) => at >= serversAtMs!).length).toBeGreaterThan(300);
  });

  it("disaggregated: half of the servers compute long prompts", () => {
    expect(workloadNamed("disaggregated")!.prefillShare).toBe(0.5);
    const prompts = playNamed("disaggregated", { rate: 16 }).map(({ request }) => request.prompt.length / 4);
    const mean = prompts.reduce((sum, tokens) => sum + tokens, 0) / prompts.length;
    expect(mean).toBeGreaterThan(2500);
    expect(mean).toBeLessThan(3500);
  });
});
