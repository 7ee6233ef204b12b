import { describe, expect, it } from "vitest";
import { Collected, factory, message, OWNER, ScriptedGate } from "../../../test/support/gates/gate-fakes.cases.ts";
import { type CapacitySource, type DispatchGate, REFUSE, WAIT } from "../../base/plugin/gate.ts";
import { CompositeGate } from "./composite.ts";
import { constantGate, OPEN_GATE } from "./constant.ts";

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
    "gives earlier reservations back as unsent when a later gate refuses (A-23, D-18; later: %s)",
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
