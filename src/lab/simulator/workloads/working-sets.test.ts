import { describe, expect, it } from "vitest";
import { checksum, play, playNamed } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { presetNamed } from "../batching/config.ts";
import { workloadNamed } from "./catalogue.ts";
import { leadMs } from "./workload.ts";

describe("the working-set workloads", () => {
  it.each([0.5, 1, 4])("has documents for %f of what the caches of two servers hold", (times) => {
    const documents = new Map<number, number>();
    playNamed(`working-set-${times}x`, {
      ...{ servers: 2, rate: 40, keep: false },
      saw({ prompt }) {
        // A document's first block says which one it is; the shortest prompt with it is the document and its question.
        const head = checksum(prompt.slice(0, 64));
        documents.set(head, Math.min(documents.get(head) ?? Number.POSITIVE_INFINITY, prompt.length / 4));
      },
    });
    const { kvBlocks, blockSize } = presetNamed("llama-3-8b-h100")!.config;
    const tokens = [...documents.values()].reduce((sum, length) => sum + length, 0);
    const wanted = times * 2 * kvBlocks * blockSize;
    expect(tokens / wanted).toBeGreaterThan(0.95);
    expect((tokens - 50_000) / wanted).toBeLessThan(1.05);
    expect(Math.min(...documents.values())).toBeGreaterThanOrEqual(10_000);
    expect(Math.max(...documents.values())).toBeLessThan(51_000);
  });

  it("lets its warm-up come to an end before it begins", () => {
    const { make } = workloadNamed("working-set-0.5x")!;
    const warmUp = { rate: 30, durationMs: 1000, restMs: 5000 };
    const times = play(make({ rate: 20, durationMs: 2000, servers: 1, warmUp })).map(({ at }) => at);
    const [before, after] = [times.filter((ms) => ms < 1000), times.filter((ms) => ms >= leadMs(warmUp))];
    expect(before.length).toBeGreaterThan(10);
    expect(after.length).toBeGreaterThan(10);
    expect(before.length + after.length).toBe(times.length);
  });
});
