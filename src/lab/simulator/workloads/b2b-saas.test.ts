import { describe, expect, it } from "vitest";
import {
  checksum,
  countBy,
  fingerprint,
  mean,
  play,
  playNamed,
  settingsOf,
} from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { B2B_SAAS, STALENESS } from "./b2b-saas.ts";

const SYSTEM_BYTES = 6000 * 4;

describe("the b2b-saas workload", () => {
  const sent = playNamed("b2b-saas", { rate: 60 });
  const prompts = [...new Set(sent.map(({ request }) => request.prompt))];

  it("has 750 prompts of 7,200 tokens, five to a system prompt of 6,000", () => {
    expect(prompts).toHaveLength(750);
    expect(new Set(prompts.map(checksum)).size).toBe(750);
    expect(new Set(prompts.map((prompt) => prompt.length))).toEqual(new Set([7200 * 4]));
    const groups = countBy(prompts, (prompt) => String(checksum(prompt.subarray(0, SYSTEM_BYTES))));
    expect(groups.size).toBe(150);
    expect(new Set(groups.values())).toEqual(new Set([5]));
  });

  it("sends all prompts in one shuffled order, again and again", () => {
    const order = sent.map(({ request }) => prompts.indexOf(request.prompt));
    expect(new Set(order.slice(0, 750)).size).toBe(750);
    expect(order).toEqual(order.map((_, i) => i % 750));
    // Neighbours are of one group by chance only, 4 in 749 times.
    const groups = prompts.map((prompt) => checksum(prompt.subarray(0, SYSTEM_BYTES)));
    expect(groups.filter((group, i) => group === groups[i - 1]).length).toBeLessThan(15);
  });

  it.each([3, 18, 60])("comes at %i requests/s within three deviations of Poisson's law", (rate) => {
    const expected = rate * 45;
    expect(Math.abs(playNamed("b2b-saas", { rate }).length - expected)).toBeLessThan(3 * Math.sqrt(expected));
  });

  it("is answered with 250 tokens on average, and never with more than 1,000", () => {
    const tokens = playNamed("b2b-saas", { rate: 60, durationMs: 400_000 }).map(({ request }) => request.outputTokens);
    expect(Math.abs(mean(tokens) - 250)).toBeLessThan(5);
    expect(Math.max(...tokens)).toBe(1000);
    expect(tokens.filter((count) => count === 1000).length / tokens.length).toBeLessThan(0.02);
  });

  it("sends the same prompts at every rate", () => {
    const slow = playNamed("b2b-saas", { rate: 3 });
    const prompts = (list: typeof sent): number[] => list.slice(0, 50).map(({ request }) => checksum(request.prompt));
    expect(prompts(slow)).toEqual(prompts(sent));
  });

  it("lets its warm-up come to an end before it begins", () => {
    const at = { rate: 20, durationMs: 2000, servers: 8, warmUp: { rate: 30, durationMs: 1000, restMs: 5000 } };
    const times = play(B2B_SAAS.make(at)).map((one) => one.at);
    const [before, after] = [times.filter((ms) => ms < 1000), times.filter((ms) => ms >= 6000 && ms < 8000)];
    expect(before.length).toBeGreaterThan(10);
    expect(after.length).toBeGreaterThan(10);
    expect(before.length + after.length).toBe(times.length);
  });
});

describe("the staleness workloads", () => {
  it("differ in how old metrics are and in nothing else", () => {
    expect(STALENESS.map(({ metricsLagMs }) => metricsLagMs)).toEqual([0, 200, 1000, 2000, 5000]);
    const plain = STALENESS.map(({ name: _, about: __, metricsLagMs: ___, ...rest }) => rest);
    for (const one of plain) expect(one).toEqual(plain[0]);
  });

  it("send the same requests at the same times", () => {
    const [first, ...others] = STALENESS.map((definition) => {
      const prints: string[] = [];
      const settings = settingsOf(definition, { durationMs: 2000 });
      play(definition.make(settings), { keep: false, saw: (request, at) => prints.push(fingerprint(request, at)) });
      return prints;
    });
    expect(first!.length).toBeGreaterThan(20);
    for (const other of others) expect(other).toEqual(first);
  });
});
