import { describe, expect, it, vi } from "vitest";
import { EPOCH, FakeGateway, Harness, OK } from "../../../test/support/dispatch/harness.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { DispatchGate } from "../../base/plugin/gate.ts";
import type { RequestTransform } from "./transforms/transform.ts";

describe("a worker", () => {
  it("validates, asks the pool's gate, looks for a cancellation, transforms, sends, gives back, settles (async-processor 7.6)", async () => {
    const steps: string[] = [];
    const clock = new VirtualClock(EPOCH);
    const gateway = new FakeGateway(clock);
    gateway.reply = () => {
      steps.push("send");
      return OK;
    };
    const transforms: RequestTransform = {
      validate: () => void steps.push("validate"),
      transform: (payload) => {
        steps.push("transform");
        return { body: payload, contentType: "text/plain" };
      },
    };
    const gate: DispatchGate = {
      capacities: [],
      budget: async () => 1,
      apply: async (_message, reservations) => {
        steps.push("gate");
        reservations.add(() => void steps.push("give back"));
        // Longer than a second: the worker then looks again whether the message is cancelled.
        await new Promise<void>((resolve) => void clock.after(1500, resolve));
        return { kind: "continue" };
      },
    };
    const harness = new Harness({ clock, gateway, transforms, gates: { "pool:default": gate } });
    const { cancelled, settle } = harness.broker;
    vi.spyOn(harness.broker, "cancelled").mockImplementation((claims) => {
      if (steps.at(-1) !== "cancelled?") steps.push("cancelled?");
      return cancelled.call(harness.broker, claims);
    });
    vi.spyOn(harness.broker, "settle").mockImplementation((settlements) => {
      steps.push(`settle, ${harness.metric("request_total")} counted`);
      return settle.call(harness.broker, settlements);
    });
    await harness.submit("a");
    harness.start();
    await harness.run(3000);
    expect(steps).toEqual([
      ...["validate", "gate", "cancelled?", "transform", "send", "give back"],
      "settle, 1 counted",
    ]);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });
});
