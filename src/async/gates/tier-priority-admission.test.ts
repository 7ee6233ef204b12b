import { describe, expect, it } from "vitest";
import { Collected, factory, message, OWNER, ScriptedGate } from "../../../test/support/gates/gate-fakes.cases.ts";
import { CONTINUE, type GateVerdict, REFUSE, WAIT } from "../../base/plugin/gate.ts";
import { OPEN_GATE } from "./constant.ts";
import { tierPriorityAdmission } from "./tier-priority-admission.ts";
import { waitOnRefuse } from "./wait-on-refuse.ts";

const TOO_MANY: GateVerdict = {
  kind: "drop",
  result: {
    payload: '{"error": "Too Many Requests", "code": 429}',
    statusCode: 429,
    errorCode: "GATE_DROPPED",
  },
};
const INNER_DROP: GateVerdict = { kind: "drop", result: { payload: "{}" } };

const LABELS = [
  { classification: "reserved", tier: "interactive" },
  { classification: "reserved", tier: "batch" },
  { classification: "reserved" },
  { classification: "overflow", tier: "interactive" },
  { classification: "overflow", tier: "batch" },
  { classification: "overflow" },
  { tier: "interactive" },
  { tier: "batch" },
  {},
] as Record<string, string>[];
/** What each row of labels meets when there is no room. */
const NO_ROOM: GateVerdict[] = [WAIT, WAIT, WAIT, TOO_MANY, REFUSE, REFUSE, REFUSE, REFUSE, REFUSE];

describe("tier-priority-admission (A-25)", () => {
  it.each([
    ["continue", CONTINUE, LABELS.map(() => CONTINUE)],
    ["refuse", REFUSE, NO_ROOM],
    ["wait", WAIT, NO_ROOM],
    ["drop", INNER_DROP, LABELS.map(() => INNER_DROP)],
  ] as const)("inner gate says %s", async (_, inner, expected) => {
    for (const later of [false, true]) {
      const gate = tierPriorityAdmission(new ScriptedGate(inner, later), "tier");
      const found = await Promise.all(LABELS.map((labels) => gate.apply(message({}, labels), new Collected())));
      expect(found).toEqual(expected);
    }
  });

  it("sees saturation through wait-on-refuse (H-6)", async () => {
    const gate = tierPriorityAdmission(waitOnRefuse(new ScriptedGate(REFUSE)), "tier");
    const labels = { classification: "overflow", tier: "interactive" };
    expect(await gate.apply(message({}, labels), new Collected())).toEqual(TOO_MANY);
  });

  it("fails as the inner gate does, has its budget and capacities, and judges while they are used up", async () => {
    const inner = new ScriptedGate(new Error("away"));
    inner.share = 0.4;
    const gate = tierPriorityAdmission(inner, "tier");
    expect(() => gate.apply(message(), new Collected())).toThrow("away");
    expect(await gate.budget()).toBe(0.4);
    expect(gate.capacities).toBe(inner.capacities);
    expect(gate.judgesWhenClosed).toBe(true);
    expect(tierPriorityAdmission(OPEN_GATE, "tier").refusalKey).toBeUndefined();
  });

  it("goes by the label that it is configured with, and makes the inner gate from text or an object (A-14)", async () => {
    for (const inner of [{ limit: 1 }, '{"limit": "1"}']) {
      const gate = factory().make(
        {
          type: "tier-priority-admission",
          parameters: { saturation_gate: "local-max-concurrency", saturation_gate_params: inner, tier_label: "lane" },
        },
        OWNER,
      );
      expect(await gate.apply(message(), new Collected())).toEqual(CONTINUE);
      const apply = (labels: Record<string, string>) => gate.apply(message({}, labels), new Collected());
      expect(await apply({ classification: "overflow", lane: "interactive" })).toEqual(TOO_MANY);
      expect(await apply({ classification: "overflow", tier: "interactive" })).toEqual(REFUSE);
    }
  });
});
