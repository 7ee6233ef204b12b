import { describe, expect, it } from "vitest";
import {
  type Answers,
  fingerprint,
  playNamed,
  type Sent,
} from "../../../../test/support/simulator/workloads/workloads.cases.ts";

const WORKERS = 96 * 8;

function played(answers: Answers, durationMs = 20_000): Record<"realtime" | "batch", Sent[]> {
  const sent = playNamed("realtime-and-batch", { rate: 60, durationMs, answers });
  const of = (kind: string): Sent[] => sent.filter(({ request }) => request.kind === kind);
  return { realtime: of("realtime"), batch: of("batch") };
}

describe("the realtime-and-batch workload", () => {
  it("sends realtime requests at its rate and never sheddable, whatever becomes of the backlog", () => {
    const calm = played((number) => 500 + (number % 10) * 100).realtime;
    const wild = played((number, { priority = 0 }) => (priority < 0 && number % 2 === 0 ? "rejected" : 4000)).realtime;
    expect(Math.abs(calm.length - 1200)).toBeLessThan(3 * Math.sqrt(1200));
    expect(calm.every(({ request }) => request.priority === undefined)).toBe(true);
    const prints = (sent: readonly Sent[]): string[] => sent.map(({ request, at }) => fingerprint(request, at));
    expect(prints(wild)).toEqual(prints(calm));
  });

  it("keeps as many batch requests out as there are workers, none before the ramp and none behind the end", () => {
    let out = 0;
    let most = 0;
    const outAt: number[] = [];
    const { batch } = played((_, { kind }) => {
      if (kind === "realtime") return 100;
      out++;
      most = Math.max(most, out);
      outAt.push(out);
      return 1e9;
    });
    // Nothing is ever answered: all workers are busy after ten seconds, evenly until then.
    expect(batch).toHaveLength(WORKERS);
    expect(most).toBe(WORKERS);
    expect(Math.abs(batch.filter(({ at }) => at < 5000).length - WORKERS / 2)).toBeLessThanOrEqual(1);
    expect(batch.at(-1)!.at).toBeLessThan(10_000);
  });

  it("has another one sent for each that is answered", () => {
    const { batch } = played(() => 1000);
    // A worker sends one a second; they begin within ten seconds.
    expect(batch.length).toBeGreaterThan(WORKERS * 14);
    expect(batch.length).toBeLessThan(WORKERS * 16);
    expect(batch.every(({ request }) => request.priority === -1)).toBe(true);
    expect(Math.max(...batch.map(({ at }) => at))).toBeLessThan(20_000);
  });

  it("tries a refused one again after two to four seconds, the same one", () => {
    const tries = new Map<unknown, number[]>();
    const { batch } = played((_, { kind }) => (kind === "batch" ? "rejected" : 100));
    for (const { request, at } of batch) tries.set(request, [...(tries.get(request) ?? []), at]);
    expect(tries.size).toBe(WORKERS);
    for (const times of tries.values()) {
      expect(times.length).toBeGreaterThan(2);
      times.slice(1).forEach((at, i) => {
        expect(at - times[i]!).toBeGreaterThanOrEqual(2000 - 1e-6);
        expect(at - times[i]!).toBeLessThanOrEqual(4000 + 1e-6);
      });
    }
  });

  it("has the same backlog in the same order, independent of how fast servers answer", () => {
    const prints = (answers: Answers): string[] => [
      ...new Set(played(answers, 12_000).batch.map(({ request }) => fingerprint(request, 0))),
    ];
    const fast = prints(() => 700);
    const slow = prints((number) => (number % 5 === 0 ? "rejected" : 1000 + (number % 9) * 500));
    expect(slow.length).toBeGreaterThan(WORKERS);
    expect(fast.slice(0, slow.length)).toEqual(slow);
  });
});
