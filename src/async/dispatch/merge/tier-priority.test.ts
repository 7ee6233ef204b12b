import { describe, expect, it } from "vitest";
import { madeClaim, madeQueues } from "../../../../test/support/dispatch/merge/made.cases.ts";
import { FairnessStamp } from "./merge-policy.ts";
import { TierPriority } from "./tier-priority.ts";

const make = (queues: ReturnType<typeof madeQueues>, workers: number) =>
  new TierPriority(queues, workers, {
    ...{ priorityHeader: "x-gateway-priority", tierLabel: "tier" },
    fairness: new FairnessStamp("x-fair", "userid"),
  });

/** Labels of each lane, and others that belong in the same one. */
const LANES: readonly (readonly Readonly<Record<string, string>>[])[] = [
  [{ classification: "reserved", tier: "interactive" }],
  [{ classification: "reserved", tier: "async" }],
  [{ classification: "reserved", tier: "batch" }, { classification: "reserved" }],
  [{ classification: "overflow", tier: "interactive" }, { tier: "interactive" }],
  [{ classification: "overflow", tier: "async" }, { tier: "async" }],
  [{ classification: "overflow", tier: "batch" }, {}, { classification: "Reserved", tier: "Interactive" }],
];

describe("TierPriority", () => {
  it("serves the six lanes strictly in order and says which one it was (A-69)", () => {
    const queues = madeQueues(6);
    const policy = make(queues, 64);
    for (const [lane, kinds] of [...LANES.entries()].reverse())
      for (const [at, labels] of kinds.entries()) policy.add(madeClaim(queues[lane]!, `${lane}.${at}`), labels);
    const served = [];
    for (let claim = policy.next(); claim !== undefined; claim = policy.next()) served.push(claim.id);
    expect(served.map((id) => id[0]).join("")).toBe("0122334455" + "5");
    for (const [lane, kinds] of LANES.entries())
      for (const labels of kinds)
        expect(policy.stamp(madeClaim(queues[0]!, "x"), labels)).toEqual([
          { name: "x-gateway-priority", value: String(lane) },
        ]);
  });

  it("goes round the queues of a lane, first claimed first within each (A-69)", () => {
    const queues = madeQueues(3);
    const policy = make(queues, 64);
    const counts = [3, 1, 2];
    for (const [i, queue] of queues.entries())
      for (let n = 0; n < counts[i]!; n++) policy.add(madeClaim(queue, `${queue.id}#${n}`), { tier: "async" });
    const served = Array.from({ length: 6 }, () => policy.next()?.id);
    expect(served).toEqual(["q0#0", "q1#0", "q2#0", "q0#1", "q2#1", "q0#2"]);
  });

  it("leaves room for an urgent queue when another has taken all it may, busy workers or not", () => {
    const [low, high] = madeQueues(2);
    const policy = make([low!, high!], 8);
    expect(policy.room(low!)).toBe(8);
    for (let i = 0; i < 8; i++) policy.add(madeClaim(low!, `${i}`), {});
    expect([policy.room(low!), policy.room(high!)]).toEqual([0, 8]);
    policy.next();
    expect(policy.room(low!)).toBe(1);
  });

  it("holds at most two messages per worker when every queue takes what it may at once", () => {
    for (const [queues, workers] of [
      [1, 1],
      [3, 8],
      [7, 64],
      [16, 8],
    ] as const) {
      const made = madeQueues(queues);
      const policy = make(made, workers);
      const rooms = made.map((queue) => policy.room(queue));
      expect(rooms.reduce((sum, room) => sum + room)).toBeLessThanOrEqual(2 * workers);
      expect(Math.min(...rooms)).toBeGreaterThanOrEqual(1);
    }
  });

  it("lets every queue show one message even where there are more of them than that", () => {
    const queues = madeQueues(5);
    const policy = make(queues, 1);
    expect(queues.map((queue) => policy.room(queue))).toEqual([1, 1, 1, 1, 1]);
  });

  it("stamps fairness besides the lane", () => {
    const [queue] = madeQueues(1);
    const policy = make([queue!], 1);
    expect(policy.stamp(madeClaim(queue!, "x", { userid: "alice" }), { tier: "async" })).toEqual([
      { name: "x-fair", value: "alice" },
      { name: "x-gateway-priority", value: "4" },
    ]);
  });
});
