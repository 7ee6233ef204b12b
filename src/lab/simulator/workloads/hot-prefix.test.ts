import { describe, expect, it } from "vitest";
import { checksum, countBy, playNamed } from "../../../../test/support/simulator/workloads/workloads.cases.ts";

describe("the hot-prefix workload", () => {
  const sent = playNamed("hot-prefix", { rate: 40 });
  const prefixOf = (prompt: Uint8Array): string => String(checksum(prompt.subarray(0, 6000 * 4)));
  const of = (kind: string) => sent.filter(({ request }) => request.kind === kind);

  it("has one prefix in 70 % of the requests, in every third of the run", () => {
    for (const from of [0, 15_000, 30_000]) {
      const third = sent.filter(({ at }) => at >= from && at < from + 15_000);
      const share = third.filter(({ request }) => request.kind === "hot").length / third.length;
      expect(Math.abs(share - 0.7)).toBeLessThan(0.06);
    }
    expect(new Set(of("hot").map(({ request }) => prefixOf(request.prompt))).size).toBe(1);
  });

  it("divides the rest among a hundred others, evenly", () => {
    const counts = countBy(of("other"), ({ request }) => prefixOf(request.prompt));
    expect(of("hot").length + of("other").length).toBe(sent.length);
    expect(counts.size).toBeGreaterThan(90);
    expect(counts.size).toBeLessThanOrEqual(100);
    expect(Math.max(...counts.values())).toBeLessThan(18);
    expect(counts.has(prefixOf(of("hot")[0]!.request.prompt))).toBe(false);
  });

  it("asks something new every time", () => {
    expect(new Set(sent.map(({ request }) => checksum(request.prompt))).size).toBe(sent.length);
  });
});

describe("the hot-document workload", () => {
  it("has one document of 30,000 tokens in 70 % of the requests, and 40 others", () => {
    const documents = new Map<number, number>();
    let requests = 0;
    playNamed("hot-document", {
      keep: false,
      saw({ prompt, kind }) {
        const head = checksum(prompt.slice(0, 30_000 * 4));
        documents.set(head, (documents.get(head) ?? 0) + 1);
        if (kind === "hot") requests++;
      },
    });
    const counts = [...documents.values()].toSorted((a, b) => b - a);
    const all = counts.reduce((sum, count) => sum + count, 0);
    expect(counts).toHaveLength(41);
    expect(counts[0]).toBe(requests);
    expect(Math.abs(counts[0]! / all - 0.7)).toBeLessThan(0.04);
  });
});
