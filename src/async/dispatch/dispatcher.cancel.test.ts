import { describe, expect, it } from "vitest";
import { answer, Harness } from "../../../test/support/dispatch/harness.cases.ts";
import type { GateVerdict } from "../../base/plugin/gate.ts";

/** A gate that says what it is told to, and one that always says it. */
function told(first: GateVerdict) {
  const state = { verdict: first };
  const gate = { capacities: [], budget: async () => 1, apply: () => state.verdict };
  return { state, gate };
}
const OPEN: GateVerdict = { kind: "continue" };
const WAITS: GateVerdict = { kind: "wait" };

describe("a cancel (A-38)", () => {
  it("before it is claimed ends the message, and no gate, worker or gateway has seen it", async () => {
    let asked = 0;
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: () => {
        asked++;
        return OPEN;
      },
    };
    const harness = new Harness({ gates: { q: gate } });
    await harness.submit("a");
    await harness.producer.cancelRequests(["a"]);
    harness.start();
    await harness.run(100);
    expect(harness.resultOf("a")).toMatchObject({ statusCode: 0, errorCode: "CANCELLED", errorMessage: "cancelled" });
    expect(asked + harness.gateway.requests.length).toBe(0);
    expect(harness.metric("failed_requests_total")).toBeNaN();
  });

  it.each(["q", "pool:default"])("while it is parked at the gate of %s ends it within two seconds", async (place) => {
    const { state, gate } = told(WAITS);
    const harness = new Harness({ gates: { [place]: gate } });
    await harness.submitMany(3);
    harness.start();
    await harness.run(10_300);
    await harness.producer.cancelRequests(["m1"]);
    await harness.run(2000);
    expect(harness.results().map(({ id, errorCode }) => id + errorCode)).toEqual(["m1CANCELLED"]);
    state.verdict = OPEN;
    await harness.run(2000);
    expect(harness.results()).toHaveLength(3);
    expect(harness.gateway.ids.sort()).toEqual(["m0", "m2"]);
  });

  it("while it is refused and held, or waits for its retry, ends it and nothing is sent again", async () => {
    const { state, gate } = told({ kind: "refuse", reason: "quota_exhausted" });
    const refused = new Harness({ gates: { q: gate } });
    await refused.submit("a");
    refused.start();
    await refused.run(5300);
    await refused.producer.cancelRequests(["a"]);
    await refused.run(3000);
    state.verdict = OPEN;
    await refused.run(3000);
    expect(refused.resultOf("a")?.errorCode).toBe("CANCELLED");
    expect(refused.gateway.requests).toHaveLength(0);

    const retried = new Harness();
    retried.gateway.reply = () => answer(500);
    await retried.submit("a");
    retried.start();
    await retried.run(1000);
    await retried.producer.cancelRequests(["a"]);
    await retried.run(20_000);
    expect(retried.resultOf("a")?.errorCode).toBe("CANCELLED");
    expect(retried.gateway.requests).toHaveLength(1);
  });

  it("of a message in flight does not abort it: its answer is its one result", async () => {
    const harness = new Harness();
    harness.gateway.latency = 5000;
    await harness.submit("a");
    harness.start();
    await harness.run(1000);
    await harness.producer.cancelRequests(["a"]);
    await harness.run(10_000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });

  it("of an unknown or finished message has no effect, nor does it cancel a later submission of that ID", async () => {
    const harness = new Harness();
    await harness.submit("a");
    harness.start();
    await harness.run(100);
    await harness.producer.cancelRequests(["a", "nobody", ""]);
    await harness.run(2000);
    expect(harness.results()).toHaveLength(1);
    await harness.submit("a");
    await harness.run(2000);
    expect(harness.results().map(({ statusCode }) => statusCode)).toEqual([200, 200]);
  });

  it("of one generation leaves the next one alone, also while the first still waits", async () => {
    const { state, gate } = told(WAITS);
    const harness = new Harness({ gates: { "pool:default": gate }, workers: 1 });
    await harness.submit("a", { deadline: harness.in(100) });
    harness.start();
    await harness.run(2500);
    await harness.producer.cancelRequests(["a"]);
    await harness.submit("a", { deadline: harness.in(200) });
    await harness.run(3000);
    state.verdict = OPEN;
    await harness.run(2000);
    expect(
      harness
        .results()
        .map(({ statusCode, errorCode }) => `${statusCode}${errorCode}`)
        .sort(),
    ).toEqual(["0CANCELLED", "200"]);
  });
});

describe("a cancel check that fails (A-39)", () => {
  it.each(["away", "answer-lost"] as const)(
    "because the broker's state is %s puts the message off for a second, counts nothing, and sends nothing",
    async (fault) => {
      const { state, gate } = told(WAITS);
      const harness = new Harness({ gates: { "pool:default": gate } });
      await harness.submit("a");
      harness.start();
      const { cancelled } = harness.broker;
      let asked = 0;
      harness.broker.cancelled = (claims) => {
        asked++;
        harness.store.fault = fault;
        const answered = cancelled.call(harness.broker, claims);
        harness.store.fault = "none";
        return answered;
      };
      for (let i = 0; i < 200 && asked === 0; i++) await harness.run(10);
      expect(asked).toBe(1);
      // Nobody knows whether it is cancelled: it does not leave, though it may by now.
      state.verdict = OPEN;
      harness.broker.cancelled = cancelled;
      await harness.run(800);
      expect(harness.gateway.requests).toHaveLength(0);
      expect(harness.store.parked.size).toBe(1);
      await harness.run(1200);
      expect(harness.resultOf("a")?.statusCode).toBe(200);
      expect(harness.metric("request_retries_total")).toBeNaN();
      expect(harness.metric("request_total")).toBe(1);
    },
  );
});
