import { describe, expect, it } from "vitest";
import { Collected, factory, message, OWNER, ScriptedGate } from "../../../test/support/gates/gate-fakes.cases.ts";
import {
  type CapacitySource,
  CONTINUE,
  type DispatchGate,
  type GateVerdict,
  REFUSE,
  WAIT,
} from "../../base/plugin/gate.ts";
import { CompositeGate, tierPriorityAdmission, waitOnRefuse } from "./composite.ts";
import { constantGate, OPEN_GATE } from "./factory.ts";

describe("composite", () => {
  it("has the smallest budget of its gates, and 1 without any (A-23)", async () => {
    const [wide, narrow] = [new ScriptedGate(), new ScriptedGate()];
    wide.share = 0.9;
    narrow.share = 0.2;
    expect(await new CompositeGate([wide, narrow, OPEN_GATE]).budget()).toBe(0.2);
    expect(await new CompositeGate([]).budget()).toBe(1);
    expect(await new CompositeGate([]).apply(message(), new Collected())).toEqual({ kind: "continue" });
  });

  it.each([false, true])(
    "gives earlier reservations back as unsent when a later gate refuses (A-23, G-18; later: %s)",
    async (later) => {
      const order: string[] = [];
      const first = new ScriptedGate(undefined, later, () => order.push("first"));
      const second = new ScriptedGate(undefined, later, () => order.push("second"));
      const refusing = new ScriptedGate(REFUSE, later);
      const behind = new ScriptedGate();
      const collected = new Collected();
      const verdict = await new CompositeGate([first, second, refusing, behind]).apply(message(), collected);
      expect(verdict).toBe(REFUSE);
      expect(order).toEqual(["second", "first"]);
      expect([first.released, second.released]).toEqual([[true], [true]]);
      expect([first.held, second.held, behind.asked, collected.count]).toEqual([0, 0, 0, 0]);
    },
  );

  it.each([false, true])(
    "gives them back when a later gate fails, and fails with its error (later: %s)",
    async (later) => {
      const first = new ScriptedGate(undefined, later);
      const failing = new ScriptedGate(new Error("Redis is away"), later);
      const collected = new Collected();
      const composite = new CompositeGate([first, failing]);
      await expect((async () => composite.apply(message(), collected))()).rejects.toThrow("Redis is away");
      expect([first.held, collected.count]).toEqual([0, 0]);
    },
  );

  it("leaves alone what a chain around it has reserved", async () => {
    const before = new ScriptedGate();
    const inner = new ScriptedGate();
    const collected = new Collected();
    before.apply(message(), collected);
    await new CompositeGate([inner, new ScriptedGate(WAIT)]).apply(message(), collected);
    expect([before.held, inner.held, collected.count]).toEqual([1, 0, 1]);
  });

  it("hands its reservations over when all continue; they know then that the message was sent", async () => {
    const gates = [new ScriptedGate(), new ScriptedGate(undefined, true), new ScriptedGate()];
    const collected = new Collected();
    expect((await new CompositeGate(gates).apply(message(), collected)).kind).toBe("continue");
    expect(gates.map((gate) => gate.held)).toEqual([1, 1, 1]);
    collected.release();
    expect(gates.map((gate) => gate.released)).toEqual([[false], [false], [false]]);
  });

  it("guards the capacities of all its gates, and judges when closed as soon as one of them does", () => {
    const capacity: CapacitySource = { key: "k", read: () => Promise.reject(new Error("not asked")) };
    const guard: DispatchGate = { ...OPEN_GATE, capacities: [capacity] };
    const plain = new CompositeGate([guard, OPEN_GATE, guard]);
    expect(plain.capacities).toEqual([capacity, capacity]);
    expect(plain.judgesWhenClosed).toBe(false);
    expect(new CompositeGate([guard, { ...guard, judgesWhenClosed: true }]).judgesWhenClosed).toBe(true);
  });

  it("holds messages for alike only when every gate does", () => {
    const capacity: CapacitySource = { key: "k", read: () => Promise.reject(new Error("not asked")) };
    const byUser: DispatchGate = { ...OPEN_GATE, refusalKey: ({ metadata }) => metadata["userid"] };
    const guard: DispatchGate = { capacities: [capacity], budget: async () => 1, apply: () => REFUSE };
    const each: DispatchGate = { capacities: [], budget: async () => 1, apply: () => REFUSE };
    const [a, b] = [message({ userid: "a" }), message({ userid: "b" })];
    const quota = new CompositeGate([byUser, guard, OPEN_GATE]);
    expect(quota.refusalKey(a)).toBe(quota.refusalKey(message({ userid: "a" })));
    expect(quota.refusalKey(a)).not.toBe(quota.refusalKey(b));
    expect(quota.refusalKey(message())).toBeUndefined();
    expect(new CompositeGate([byUser, each]).refusalKey(a)).toBeUndefined();
    expect(new CompositeGate([byUser, { ...guard, judgesWhenClosed: true }]).refusalKey(a)).toBeUndefined();
  });

  it("is made from a list and from JSON text, with the owner of the outer gate (A-14)", async () => {
    const gates = [{ gate_type: "local-max-concurrency", gate_params: { limit: "2" } }, { gate_type: "constant" }];
    for (const given of [gates, JSON.stringify(gates)]) {
      const made = factory();
      const gate = made.make({ type: "composite", parameters: { gates: given } }, OWNER);
      const collected = new Collected();
      await gate.apply(message(), collected);
      expect(await gate.budget()).toBe(0.5);
      await made.close();
    }
    expect(constantGate.type).toBe("constant");
  });
});

const DROP: GateVerdict = { kind: "drop" };

it.each([
  [CONTINUE, CONTINUE],
  [REFUSE, WAIT],
  [{ kind: "refuse", reason: "quota_exhausted" }, WAIT],
  [WAIT, WAIT],
  [DROP, DROP],
] as const)("turns %o into %o, at once and later (A-24)", async (inner, outer) => {
  for (const later of [false, true])
    expect(await waitOnRefuse(new ScriptedGate(inner, later)).apply(message(), new Collected())).toEqual(outer);
});

it("fails as the inner gate does, has its budget, and passes reservations through", async () => {
  const inner = new ScriptedGate();
  inner.share = 0.3;
  const gate = waitOnRefuse(inner);
  expect(await gate.budget()).toBe(0.3);
  const collected = new Collected();
  gate.apply(message(), collected);
  expect([inner.held, collected.count]).toEqual([1, 1]);
  inner.verdict = new Error("away");
  expect(() => gate.apply(message(), collected)).toThrow("away");
});

it("lets a message wait at a full local limit, and pass when there is room again", async () => {
  const gates = factory();
  const gate = gates.make(
    { type: "wait-on-refuse", parameters: { gate: { gate_type: "local-max-concurrency", gate_params: { limit: 1 } } } },
    OWNER,
  );
  const collected = new Collected();
  expect(gate.apply(message(), collected)).toEqual(CONTINUE);
  expect(gate.apply(message(), new Collected())).toEqual(WAIT);
  collected.release();
  expect(gate.apply(message(), collected)).toEqual(CONTINUE);
});

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
