import { describe, expect, it } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import type { InferenceCore } from "./inference-core.ts";
import { recordedRun } from "./simulation/replay/recorded.cases.ts";
import { viewsOf } from "./views.ts";

/** Views of a process whose ring holds `records`, oldest first. */
function viewsWith(records: readonly { readonly sequence: number }[]) {
  const latest = (count: number, since = 0) =>
    records
      .filter(({ sequence }) => sequence > since)
      .reverse()
      .slice(0, count);
  const core = { clock: new VirtualClock(), records: { latest } } as unknown as InferenceCore;
  return viewsOf(core, "pool", () => true);
}

const sequences = (lines: readonly string[]): number[] => lines.map((line) => JSON.parse(line).sequence as number);

describe("the full records that an admin port gives", () => {
  const records = recordedRun({ decisions: 12, fullEvery: 3 });

  it("are those of decisions that were kept in full, oldest first, behind a number if one is given", () => {
    const views = viewsWith(records);
    expect(sequences(views.fullDecisions(0))).toEqual([3, 6, 9, 12]);
    expect(sequences(views.fullDecisions(6))).toEqual([9, 12]);
    expect(views.fullDecisions(12)).toEqual([]);
  });

  it("are the newest of them where all would be too much, and at least one (bound)", () => {
    const long = "x".repeat(2 << 20);
    const wide = recordedRun({ decisions: 4 }).map((record) => ({
      ...JSON.parse(JSON.stringify(record)),
      model: long,
    }));
    expect(sequences(viewsWith(wide).fullDecisions(0))).toEqual([3, 4]);
    const huge = wide.map((record) => ({ ...record, model: long.repeat(4) }));
    expect(sequences(viewsWith(huge).fullDecisions(0))).toEqual([4]);
  });
});
