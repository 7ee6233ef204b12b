import { expect, it } from "vitest";
import { Collected, factory, message, OWNER, ScriptedGate } from "../../../test/support/gates/gate-fakes.cases.ts";
import { CONTINUE, type GateVerdict, REFUSE, WAIT } from "../../base/plugin/gate.ts";
import { waitOnRefuse } from "./wait-on-refuse.ts";

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
