import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { busyNote, isTooBusy, LagMeter } from "./lag.ts";
import { send } from "./traffic.ts";

describe("the lag of the demo's own event loop", () => {
  it("is nothing where timers come in time, and what they are late by where they do not", () => {
    const clock = new VirtualClock();
    const meter = new LagMeter(clock);
    for (let i = 0; i < 10; i++) clock.advance(20);
    expect(meter.summary()).toEqual({ p90: 0, max: 0 });
    // A turn of the loop that takes longer than the time to the next look.
    const now = clock.now.bind(clock);
    let late = 0;
    clock.now = () => now() + late;
    for (let i = 0; i < 10; i++) {
      late += 35;
      clock.advance(20);
    }
    expect(meter.summary()).toEqual({ p90: 35, max: 35 });
    meter.stop();
    clock.advance(1000);
    expect(meter.summary().max).toBe(35);
    expect(clock.pending).toBe(0);
  });

  it("is told where times do not count, and only there", () => {
    const fine = { name: "round-robin", lagMs: { p90: 19, max: 400 } };
    expect(busyNote([fine])).toEqual([]);
    const busy = { name: "sluice", lagMs: { p90: 20, max: 300 } };
    expect(isTooBusy(busy.lagMs)).toBe(true);
    expect(busyNote([fine, busy])).toEqual([
      "",
      "This machine was too busy: timers of the demo were late, in sluice by 20 ms (p90), 300 ms at worst.",
      "Do not rely on the times above. End other programs and run the demo again.",
    ]);
  });
});

describe("what the demo says of a request that failed", () => {
  const failing = (code: string, message: string) => ({
    request: () => Promise.reject(Object.assign(new Error(message), { code })),
  });
  const request = { number: 1, at: 0, system: "", question: "", maxTokens: 1 };
  it.each([
    ["UND_ERR_HEADERS_TIMEOUT", "Headers Timeout Error", "no answer began within 15 s"],
    ["UND_ERR_BODY_TIMEOUT", "Body Timeout Error", "the answer sent nothing for 15 s"],
    ["UND_ERR_SOCKET", "other side closed", "the gateway ended the connection before its answer"],
    ["ECONNREFUSED", "connect ECONNREFUSED 127.0.0.1:8080", "connect ECONNREFUSED 127.0.0.1:8080"],
  ])("is a reason: %s", async (code, message, detail) => {
    const clock = new VirtualClock();
    const outcome = await send(
      failing(code, message) as unknown as Parameters<typeof send>[0],
      request as Parameters<typeof send>[1],
      clock,
    );
    expect(outcome).toMatchObject({ kind: "failed", detail });
  });
});
