import { describe, expect, it } from "vitest";
import { fingerprint, play, settingsOf } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { STALENESS } from "./staleness.ts";

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
