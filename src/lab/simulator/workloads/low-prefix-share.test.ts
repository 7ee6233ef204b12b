import { describe, expect, it } from "vitest";
import {
  commonTokens,
  mean,
  playNamed,
  quantile,
} from "../../../../test/support/simulator/workloads/workloads.cases.ts";

describe("the low-prefix-share workload", () => {
  const sent = playNamed("low-prefix-share");
  const tokens = sent.map(({ request }) => request.prompt.length / 4);

  it("has prompts that share 5 to 10 % with all others, and nothing more with any", () => {
    const share = (112 * sent.length) / tokens.reduce((sum, count) => sum + count, 0);
    expect(share).toBeGreaterThan(0.05);
    expect(share).toBeLessThan(0.1);
    const byText = sent.map(({ request }) => new TextDecoder().decode(request.prompt)).toSorted();
    const bytes = byText.map((text) => new TextEncoder().encode(text));
    // In alphabetical order the one that has most in common is a neighbour: less than a block behind the system prompt.
    bytes.slice(1).forEach((prompt, i) => {
      const common = commonTokens(prompt, bytes[i]!);
      expect(common).toBeGreaterThanOrEqual(112);
      expect(common).toBeLessThan(112 + 16);
    });
  });

  it("has lengths that spread as a log-normal distribution does", () => {
    expect(Math.abs(mean(tokens) / 1512 - 1)).toBeLessThan(0.05);
    const questions = tokens.map((count) => count - 112);
    expect(Math.abs(quantile(questions, 0.75) / quantile(questions, 0.25) / Math.exp(0.6 * 1.349) - 1)).toBeLessThan(
      0.08,
    );
    expect(Math.abs(mean(sent.map(({ request }) => request.outputTokens)) / 248 - 1)).toBeLessThan(0.05);
  });

  it("comes at its rate", () => {
    expect(Math.abs(sent.length - 70 * 45)).toBeLessThan(3 * Math.sqrt(70 * 45));
  });
});
