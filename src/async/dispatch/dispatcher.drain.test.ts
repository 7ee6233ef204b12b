import { describe, expect, it } from "vitest";
import { answer, EPOCH, FakeCapacity, Harness, queueSettings } from "../../../test/support/dispatch/harness.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import type { DispatchGate, GateMessage, GateVerdict, Reservations } from "../../base/plugin/gate.ts";
import { LocalMaxConcurrency } from "../gates/local-max-concurrency.ts";
import { mergePolicy } from "./merge/policy-file.ts";

/** Stops, and says how many milliseconds it took; fails when it has not ended `limit` after the drain. */
async function stop(harness: Harness, drain: number, limit = 5000): Promise<number> {
  const begun = harness.clock.now();
  let took = Number.NaN;
  const stopped = harness.dispatcher.stop(drain).then(() => {
    took = harness.clock.now() - begun;
  });
  for (let waited = 0; waited < drain + limit && Number.isNaN(took); waited += 10) await harness.run(10);
  expect(took).toBeLessThanOrEqual(drain + limit);
  await stopped;
  return took;
}

/** Nothing is lost: results, queued and parked are all there were, and nothing is kept under a lease. */
function expectAll(harness: Harness, total: number): void {
  const { store } = harness;
  expect(store.leases.size).toBe(0);
  expect(harness.dispatcher.claims).toBe(0);
  expect(harness.results().length + store.queue("q").size + store.parked.size).toBe(total);
  expect(new Set(harness.results().map(({ id }) => id)).size).toBe(harness.results().length);
}

describe("a stop with requests of 60 s under way (A-87, H-26)", () => {
  it("and 120 s to drain: they end, their results are written, and nothing is sent twice", async () => {
    const harness = new Harness({ workers: 8 });
    harness.gateway.latency = 60_000;
    await harness.submitMany(50);
    harness.start();
    await harness.run(5000);
    const took = await stop(harness, 120_000);
    expect(took).toBeLessThan(56_000);
    expect(harness.results().map(({ statusCode }) => statusCode)).toEqual(Array(8).fill(200));
    expect(harness.gateway.requests).toHaveLength(8);
    expectAll(harness, 50);
  });

  it("and more claimed for a choice: those go back at once, while the requests run on", async () => {
    const policy = mergePolicy(parseDocument('{"type":"tier-priority"}', { file: "policy" }), new SeededRandom(1));
    const harness = new Harness({ workers: 8, policy });
    harness.gateway.latency = 60_000;
    await harness.submitMany(50);
    harness.start();
    await harness.run(5000);
    expect(harness.dispatcher.claims).toBe(8 + 16);
    const stopped = harness.dispatcher.stop(120_000);
    await harness.run(100);
    expect(harness.dispatcher.claims).toBe(8);
    expect(harness.store.queue("q").size).toBe(42);
    await harness.run(60_000);
    await stopped;
    expect(harness.results()).toHaveLength(8);
    expectAll(harness, 50);
  });

  it("and 5 s: they are queued again at once, with their places and without a count", async () => {
    const harness = new Harness({ workers: 8 });
    harness.gateway.latency = 60_000;
    await harness.submitMany(50);
    harness.start();
    await harness.run(5000);
    const took = await stop(harness, 5000);
    expect(took).toBeGreaterThanOrEqual(4990);
    expect(took).toBeLessThan(6000);
    expect(harness.gateway.running).toBe(0);
    expect(harness.store.queue("q").size).toBe(50);
    expectAll(harness, 50);
    expect(harness.metric("request_retries_total")).toBeNaN();
    // Another process finds them in their order.
    const next = new Harness({ clock: harness.clock, store: harness.store, workers: 1 });
    next.start();
    await next.run(100);
    expect(next.gateway.ids[0]).toBe("m0");
    expect(next.results()).toHaveLength(50);
  });

  it("a result that comes in the last moment wins over the cut (H-13)", async () => {
    for (let at = -3; at <= 3; at++) {
      const harness = new Harness({ workers: 4 });
      harness.gateway.latency = 3000 + at;
      await harness.submitMany(4);
      harness.start();
      await harness.run(0);
      await stop(harness, 3000);
      expectAll(harness, 4);
      // Answered by the gateway is a result: work that was done is not done again.
      if (at < 0) expect(harness.results()).toHaveLength(4);
    }
  });

  it("nothing more is claimed or sent from the signal on", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 100;
    await harness.submitMany(100);
    harness.start();
    await harness.run(450);
    const sent = harness.gateway.requests.length;
    const stopping = harness.dispatcher.stop(60_000);
    await harness.submitMany(10, {}, "later");
    await harness.run(5000);
    await stopping;
    expect(harness.gateway.requests.length).toBe(sent);
    expectAll(harness, 110);
  });

  it("what fails while it drains is parked for its retry, not lost and not repeated", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 1000;
    harness.gateway.reply = () => answer(503);
    await harness.submitMany(10);
    harness.start();
    await harness.run(500);
    await stop(harness, 30_000);
    expect(harness.store.parked.size).toBe(4);
    expect(harness.gateway.requests).toHaveLength(4);
    expectAll(harness, 10);
  });
});

describe("a stop while messages wait (A-88)", () => {
  class Slow implements DispatchGate {
    readonly capacities = [];
    readonly #clock: VirtualClock;
    readonly #ms: number;
    reserved = 0;

    constructor(clock: VirtualClock, ms: number) {
      this.#clock = clock;
      this.#ms = ms;
    }

    async budget(): Promise<number> {
      return 1;
    }

    apply({ signal }: GateMessage, reservations: Reservations): Promise<GateVerdict> {
      return new Promise((resolve, reject) => {
        const timer = this.#clock.after(this.#ms, () => {
          this.reserved++;
          reservations.add(() => this.reserved--);
          resolve({ kind: "continue" });
        });
        signal.addEventListener("abort", () => {
          timer.cancel();
          reject(signal.reason as Error);
        });
      });
    }
  }
  const always = (verdict: GateVerdict): DispatchGate => ({
    capacities: [],
    budget: async () => 0,
    apply: () => verdict,
  });
  const gates: readonly (readonly [string, (clock: VirtualClock) => DispatchGate])[] = [
    ["lets them wait", () => always({ kind: "wait" })],
    ["refuses them", () => always({ kind: "refuse" })],
    ["refuses them for quota", () => always({ kind: "refuse", reason: "quota_exhausted" })],
    ["is about to answer (H-8)", (clock) => new Slow(clock, 700)],
    ["never answers", (clock) => new Slow(clock, 1e9)],
    [
      "keeps them waiting in place (H-8)",
      () => {
        const gate = new LocalMaxConcurrency(1, true);
        gate.apply({ signal: new AbortController().signal } as GateMessage, { add: () => {} });
        return gate;
      },
    ],
    [
      "fails",
      () => ({
        capacities: [],
        budget: async () => 0,
        apply: () => {
          throw new Error("away");
        },
      }),
    ],
    ["has no room", (clock) => new FakeCapacity(clock, { budget: 0 }).gate()],
  ];
  for (const place of ["q", "pool:default"])
    it.each(gates)(`at the gate of ${place} that %s: all are queued again within a second`, async (name, make) => {
      if (name === "fails" && place !== "q") return;
      const clock = new VirtualClock(EPOCH);
      const gate = make(clock);
      const harness = new Harness({ clock, gates: { [place]: gate }, workers: 4 });
      await harness.submitMany(30);
      harness.start();
      await harness.run(500);
      expect(await stop(harness, 120_000)).toBeLessThan(1000);
      expect(harness.store.queue("q").size).toBe(30);
      expectAll(harness, 30);
      if (gate instanceof Slow) expect(gate.reserved).toBe(0);
    });
});

describe("a stop with a broker that is slow, hangs or is away (A-89, H-14)", () => {
  it.each([20, 500, 1500])("%s ms for everything: nothing is lost at any moment", async (latency) => {
    for (const moment of [0, 10, 250, 499, 501, 760, 1999, 3100]) {
      const harness = new Harness({ workers: 4 });
      harness.gateway.latency = 100;
      await harness.submitMany(40);
      harness.store.latency = latency;
      harness.start();
      await harness.run(moment);
      await stop(harness, 10_000);
      expectAll(harness, 40);
    }
  });

  it("that never answers again: it ends all the same, and the leases bring everything back", async () => {
    const harness = new Harness({ workers: 4, leases: { claimTtl: 10_000, reclaimInterval: 1000 } });
    harness.gateway.latency = 100;
    await harness.submitMany(20);
    harness.start();
    await harness.run(150);
    harness.store.latency = 1e9;
    await harness.run(1000);
    await stop(harness, 2000);
    harness.store.latency = 0;
    const next = new Harness({
      ...{ clock: harness.clock, store: harness.store, workers: 4 },
      leases: { claimTtl: 10_000, reclaimInterval: 1000 },
    });
    next.start();
    await next.run(30_000);
    expect(next.results()).toHaveLength(20);
    expect(new Set(next.results().map(({ id }) => id)).size).toBe(20);
  });

  it("that comes back within the drain gets all results", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 1000;
    await harness.submitMany(20);
    harness.start();
    await harness.run(500);
    harness.store.fault = "away";
    const stopping = harness.dispatcher.stop(20_000);
    await harness.run(8000);
    harness.store.fault = "none";
    await harness.run(14_000);
    await stopping;
    expect(harness.results()).toHaveLength(4);
    expectAll(harness, 20);
  });
});

describe("a stop", () => {
  it("before anything was started, or of an idle dispatcher, is quick", async () => {
    expect(await stop(new Harness(), 60_000)).toBeLessThan(100);
    const idle = new Harness({ queues: [queueSettings("q"), queueSettings("r")] });
    idle.start();
    await idle.run(10_000);
    expect(await stop(idle, 60_000)).toBeLessThan(100);
  });

  it("leaves no timer behind that would act on the broker", async () => {
    const harness = new Harness({ workers: 2 });
    harness.gateway.reply = () => answer(503);
    await harness.submitMany(10, { deadline: harness.in(30) });
    harness.start();
    await harness.run(5000);
    await stop(harness, 1000);
    let asked = 0;
    const count = (): never => {
      asked++;
      throw new Error("it was stopped");
    };
    Object.assign(harness.broker, { claim: count, settle: count, renew: count, moveDue: count, reclaim: count });
    await harness.run(300_000);
    expect(asked).toBe(0);
  });
});
