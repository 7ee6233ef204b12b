import { describe, expect, it } from "vitest";
import { FlowRig } from "../../../test/support/flowcontrol/flow-rig.cases.ts";
import { PLAIN_BAND } from "../../../test/support/flowcontrol/plain-policies.cases.ts";

/** Priorities from 1 up: with band 0 these are as many bands as can exist. */
const MOST = Array.from({ length: 1023 }, (_, i) => i + 1);

/** The band of each priority, and the requests in it, for those that have any. */
const filled = (rig: FlowRig): (readonly [priority: number, requests: number])[] =>
  rig.flow.bands().flatMap(({ priority, requests }) => (requests === 0 ? [] : [[priority, requests] as const]));

describe("more priorities of objectives than bands (scheduling 6.1)", () => {
  it("the first 1,023 in the order of the objectives have bands; requests of all others wait in the next lower band", () => {
    const rig = new FlowRig();
    rig.flow.usePriorities(new Set([...MOST, 5000, -5000]));
    rig.enter("urgent", { priority: 5000 });
    rig.enter("batch", { priority: -5000 });
    rig.enter("first", { priority: 1 });
    rig.enter("last", { priority: 1023 });
    expect(filled(rig)).toEqual([
      [1023, 2],
      [1, 1],
      [0, 1],
    ]);
    // No band is below 0 here, so that the batch one is not after the default priority.
    rig.enter("usual");
    rig.loadIs(0);
    expect(rig.news()).toEqual(["urgent", "last", "first", "batch", "usual"].map((id) => `${id} Dispatched`));
  });

  it("each such request is told to the log, and keeps its own priority in metrics", () => {
    const rig = new FlowRig();
    rig.flow.usePriorities(new Set([...MOST, 5000]));
    rig.enter("a", { priority: 5000 });
    rig.enter("b", { priority: 5000 });
    expect(rig.strange).toEqual([5000, 5000]);
    expect(rig.entered).toEqual(["a 5000 1", "b 5000 1"]);
  });

  it("the bands of the configuration come first, and a new configuration brings them in", () => {
    const rig = new FlowRig();
    rig.flow.usePriorities(new Set(MOST));
    rig.enter("a", { priority: 5000 });
    rig.flow.configure(rig.settings({ bands: [[5000, PLAIN_BAND]] }));
    rig.enter("b", { priority: 1023 });
    expect(filled(rig)).toEqual([
      [5000, 1],
      [1022, 1],
    ]);
    expect(rig.flow.bands().length).toBe(1024);
  });

  it("former priorities keep their places for 10 minutes; then others get them", () => {
    const rig = new FlowRig();
    const wanted = new Set([5000]);
    rig.flow.usePriorities(new Set(MOST));
    rig.flow.usePriorities(wanted);
    rig.enter("a", { priority: 5000 });
    expect(filled(rig)).toEqual([[1023, 1]]);
    rig.clock.advance(600_000);
    expect(rig.flow.bands().length).toBe(3);
    rig.enter("b", { priority: 5000 });
    expect(filled(rig)).toEqual([
      [5000, 1],
      [1023, 1],
    ]);
  });

  it("a request that goes on at once uses its band: the band stays for 10 minutes more", () => {
    const rig = new FlowRig();
    rig.flow.usePriorities(new Set([-7]));
    rig.flow.usePriorities(new Set());
    rig.clock.advance(599_999);
    rig.loadIs(0).enter("a", { priority: -7 });
    rig.clock.advance(600_000);
    expect(rig.flow.bands().map(({ priority }) => priority)).toEqual([0, -7]);
    rig.clock.advance(600_001);
    expect(rig.flow.bands().map(({ priority }) => priority)).toEqual([0]);
  });
});
