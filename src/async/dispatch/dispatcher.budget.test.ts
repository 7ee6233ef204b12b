import { describe, expect, it } from "vitest";
import {
  answer,
  EPOCH,
  FakeCapacity,
  Harness,
  type HarnessOptions,
  queueSettings,
} from "../../../test/support/dispatch/harness.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { LearnedBytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { CapacityReading } from "../../base/plugin/gate.ts";
import { gatesView } from "./views.ts";

const KIB = 1024;

/** A dispatcher whose queue has a gate with this reading. */
function gated(reading: Partial<CapacityReading>, options: HarnessOptions = {}) {
  const clock = options.clock ?? new VirtualClock(EPOCH);
  const capacity = new FakeCapacity(clock, reading);
  const gate = capacity.gate();
  const queues = options.queues ?? [queueSettings()];
  const gates = Object.fromEntries(queues.map(({ name }) => [name, gate]));
  const harness = new Harness({ workers: 64, gates, ...options, clock });
  return { harness, capacity };
}

/** An object of exactly so many bytes, from 6 up. */
const jsonOf = (bytes: number): string => `{"${"k".repeat(bytes - 6)}":1}`;

/** JSON text of exactly so many bytes, with a prompt of all but 13 of them. */
const body = (bytes: number): string => `{"prompt":"${"x".repeat(bytes - 13)}"}`;

describe("the test vectors of 2.4 decide what is in flight (A-1)", () => {
  it.each([
    ["B-1, the worked example: F 0.3, B 0.1, 5 servers of 10", 1 - 0.3, 0.1, 5 * 10, 30],
    ["B-3: D = B", 0.05, 0.05, 50, 0],
    ["B-4: just above B one may go, and no second beside it", 0.06, 0.05, 50, 1],
    ["B-5: where doubles fall short", 1 - 0.05, 0.05, 50, 45],
    ["B-6: D above 1 counts as 1", 1.3, 0.1, 10, 9],
    ["B-7: no servers", 0, 0.05, 50, 0],
    ["the reference's batch 10, B 0.1, D 0.2", 0.2, 0.1, 50, 5],
  ])("%s", async (_, budget, baseline, maxSys, expected) => {
    const { harness } = gated({ budget, baseline, maxSys });
    harness.gateway.latency = 60_000;
    await harness.submitMany(200);
    harness.start();
    await harness.run(20_000);
    expect(harness.gateway.running).toBe(expected);
  });

  it("B-2 in bytes: of 614.4 KiB, r1 of 600 goes and r2 of 100 does not", async () => {
    const { harness } = gated({ budget: 0.7, baseline: 0.1, maxSys: 1024 * KIB, unit: "bytes" });
    harness.gateway.latency = 60_000;
    await harness.submit("r1", { payload: body(600 * KIB), deadline: harness.in(1000) });
    await harness.submit("r2", { payload: body(100 * KIB), deadline: harness.in(2000) });
    harness.start();
    await harness.run(20_000);
    expect(harness.gateway.ids).toEqual(["r1"]);
  });

  it("B-2 in tokens: a quarter of the prompt's bytes and the longest answer count", async () => {
    const { harness } = gated({ budget: 0.7, baseline: 0.1, maxSys: 1024, unit: "tokens" });
    harness.gateway.latency = 60_000;
    await harness.submit("r1", { payload: { prompt: "x".repeat(400), max_tokens: 500 }, deadline: harness.in(1000) });
    await harness.submit("r2", { payload: { prompt: "", max_completion_tokens: 100 }, deadline: harness.in(2000) });
    harness.start();
    await harness.run(20_000);
    expect(harness.gateway.ids).toEqual(["r1"]);
  });

  it("B-2 in tokens: bytes per token are those of the model's answers, and are shown", async () => {
    const { harness } = gated({ budget: 1, baseline: 0, maxSys: 4200, unit: "tokens" });
    harness.gateway.latency = 1000;
    harness.gateway.reply = () => answer(200, { body: Buffer.from('{"usage":{"prompt_tokens":1000}}') });
    for (let i = 0; i < 40; i++)
      await harness.submit(`r${i}`, { payload: { model: "m", prompt: "x".repeat(8000) }, deadline: harness.in(9000) });
    harness.start();
    await harness.run(500);
    // 2,000 tokens each, by four bytes.
    expect(harness.gateway.running).toBe(2);
    await harness.run(8000);
    expect(harness.gateway.running).toBe(4);
    const [{ model, bytesPerToken }] = (gatesView(harness.dispatcher, 0) as { bytesPerToken: [LearnedBytesPerToken] })
      .bytesPerToken;
    expect([model, Math.round(bytesPerToken)]).toEqual(["m", 8]);
  });

  it("B-8: sizes 10, 10, 100, 6 against 30 bytes: the first two, and nobody skips ahead (A-11)", async () => {
    const { harness } = gated({ budget: 1, baseline: 0, maxSys: 30, unit: "bytes" });
    harness.gateway.latency = 60_000;
    for (const [i, payload] of [10, 10, 100, 6].map(jsonOf).entries())
      harness.store.add(
        "q",
        `{"internal":{},"request_kind":"redis","data":{"id":"m${i}","deadline":${harness.in(1000 + i)},"payload":${payload}}}`,
        harness.in(1000 + i),
      );
    harness.start();
    await harness.run(20_000);
    expect(harness.gateway.ids).toEqual(["m0", "m1"]);
    // When both are done the large one goes alone, since it could never fit, and then the last.
    await harness.run(45_000);
    expect(harness.gateway.ids).toEqual(["m0", "m1", "m2"]);
    await harness.run(60_000);
    expect(harness.gateway.ids).toEqual(["m0", "m1", "m2", "m3"]);
  });
});

describe("D just above B (A-2)", () => {
  it("lets exactly one go at a time, and the next one after it", async () => {
    const { harness, capacity } = gated({ budget: 0.1 + 1e-6, baseline: 0.1, maxSys: 50, kind: "queue-only" });
    harness.gateway.latency = 1000;
    await harness.submitMany(20);
    harness.start();
    for (let i = 0; i < 10; i++) {
      await harness.run(1000);
      capacity.sample();
    }
    expect(harness.gateway.peak).toBe(1);
    // No pause that is longer than a look at the gate.
    expect(harness.gateway.requests.length).toBeGreaterThanOrEqual(5);
  });

  it("D = B lets nobody go, however often it is asked", async () => {
    const { harness, capacity } = gated({ budget: 0.1, baseline: 0.1, maxSys: 50 });
    await harness.submitMany(5);
    harness.start();
    for (let i = 0; i < 30; i++) {
      await harness.run(1000);
      capacity.sample();
    }
    expect(harness.gateway.requests).toHaveLength(0);
  });
});

describe("batch_size", () => {
  it("of 1 dispatches at D = 1 (A-3), and caps a claim, not what is in flight", async () => {
    const { harness } = gated({ budget: 1, baseline: 0.05, maxSys: 100 }, { batchCap: 1 });
    harness.gateway.latency = 10_000;
    await harness.submitMany(100);
    harness.start();
    await harness.run(5000);
    expect(harness.gateway.running).toBe(64);
  });
});

describe("one sample", () => {
  it("is spent once, however often it is read (A-4)", async () => {
    const { harness, capacity } = gated({ budget: 0.7, baseline: 0.1, maxSys: 50 });
    harness.gateway.latency = 60_000;
    await harness.submitMany(300);
    harness.start();
    for (let i = 0; i < 10; i++) {
      await harness.run(2000);
      await harness.submitMany(5, {}, `more${i}-`);
    }
    expect(capacity.reads).toBeGreaterThan(10);
    expect(harness.gateway.requests).toHaveLength(30);
  });

  it("is spent once by all queues and pools that share the gate, and every queue has some of it (G-10)", async () => {
    const clock = new VirtualClock(EPOCH);
    const queues = ["a", "b", "c", "d"].map((name) =>
      queueSettings(name, { workerPoolId: name < "c" ? "one" : "two" }),
    );
    const pools = ["one", "two"].map((id) => ({ id, workers: 64, gate: undefined }));
    const { harness } = gated({ budget: 0.7, baseline: 0.1, maxSys: 50 }, { clock, queues, pools });
    const { send } = harness.gateway;
    harness.gateway.send = (request, signal) => {
      harness.gateway.latency = 450 + ((harness.gateway.requests.length * 37) % 101);
      return send.call(harness.gateway, request, signal);
    };
    for (const { name } of queues) await harness.submitMany(200, { requestQueueName: name }, name);
    harness.start();
    await harness.run(5000);
    expect(harness.gateway.peak).toBe(30);
    // 30 at a time for ten rounds.
    expect(harness.results().length).toBeGreaterThan(240);
    const shares = queues.map(({ name }) => harness.results().filter(({ id }) => id.startsWith(name)).length);
    expect(Math.min(...shares)).toBeGreaterThan(25);
  });

  it("is divided between replicas", async () => {
    const { harness } = gated({ budget: 0.7, baseline: 0.1, maxSys: 50 }, { replicas: 3 });
    harness.gateway.latency = 60_000;
    await harness.submitMany(100);
    harness.start();
    await harness.run(10_000);
    expect(harness.gateway.running).toBe(10);
  });
});

describe("an overload answer (A-5)", () => {
  const saturated = { dropReason: "rejected-saturated" };
  it.each([
    ["429", answer(429)],
    ["429 rejected-saturated", answer(429, saturated)],
    ["503 rejected-saturated", answer(503, saturated)],
  ])("%s closes the gate within 50 ms, until a later sample opens it", async (_, overload) => {
    const { harness, capacity } = gated({ budget: 0.8, maxSys: 10 });
    harness.gateway.latency = 100;
    let first = true;
    harness.gateway.reply = () => {
      if (!first) return answer(200);
      first = false;
      return overload;
    };
    await harness.submitMany(500);
    harness.start();
    await harness.run(140);
    const sent = harness.gateway.requests.length;
    await harness.run(20_000);
    expect(harness.gateway.requests.length).toBe(sent);
    // A sample from before the answer, that comes late.
    capacity.reading = { ...capacity.reading, sampleTime: EPOCH + 90, budget: 1 };
    await harness.run(5000);
    expect(harness.gateway.requests.length).toBe(sent);
    // A later one that says no.
    capacity.sample({ budget: 0 });
    await harness.run(5000);
    expect(harness.gateway.requests.length).toBe(sent);
    capacity.sample({ budget: 0.8 });
    await harness.run(1500);
    expect(harness.gateway.requests.length).toBeGreaterThan(sent);
    for (let i = 0; i < 30; i++) {
      capacity.sample();
      await harness.run(1000);
    }
    expect(harness.results()).toHaveLength(500);
  });

  it("503 without that reason, and 500, close nothing", async () => {
    const { harness } = gated({ budget: 0.8, maxSys: 10 });
    harness.gateway.latency = 10;
    harness.gateway.reply = (_, attempt) => answer([503, 500, 408, 200][attempt % 4]!);
    await harness.submitMany(100);
    harness.start();
    await harness.run(1000);
    expect(harness.gateway.requests.length).toBeGreaterThanOrEqual(100);
  });

  it("closes a pool's gate as well, for all queues of the pool", async () => {
    const clock = new VirtualClock(EPOCH);
    const capacity = new FakeCapacity(clock, { budget: 0.8, maxSys: 10 });
    const queues = [queueSettings("q"), queueSettings("r")];
    const harness = new Harness({ clock, queues, gates: { "pool:default": capacity.gate() }, workers: 64 });
    harness.gateway.latency = 100;
    harness.gateway.reply = () => answer(429);
    await harness.submitMany(50);
    await harness.submitMany(50, { requestQueueName: "r" }, "r");
    harness.start();
    await harness.run(30_000);
    expect(harness.gateway.requests.length).toBeLessThanOrEqual(8);
    expect(harness.results()).toHaveLength(0);
  });

  it("leaves a queue alone whose gate is another, and one without a metric gate to plain backoff", async () => {
    const clock = new VirtualClock(EPOCH);
    const one = new FakeCapacity(clock, { budget: 0.8, maxSys: 10 }, "one");
    const two = new FakeCapacity(clock, { budget: 0.8, maxSys: 10 }, "two");
    const queues = [queueSettings("q"), queueSettings("r"), queueSettings("s")];
    const harness = new Harness({ clock, queues, gates: { q: one.gate(), r: two.gate() }, workers: 16 });
    harness.gateway.latency = 10;
    harness.gateway.reply = ({ body: sent }) => answer(sent.toString().includes("full") ? 429 : 200);
    await harness.submitMany(5, { payload: { prompt: "full" } });
    await harness.submitMany(50, { requestQueueName: "r" }, "r");
    await harness.submitMany(50, { requestQueueName: "s" }, "s");
    harness.start();
    await harness.run(3000);
    expect(harness.results()).toHaveLength(100);
    await harness.submitMany(1, { requestQueueName: "s", payload: { prompt: "full" } }, "sfull");
    await harness.submitMany(50, { requestQueueName: "s" }, "sn");
    await harness.run(3000);
    expect(harness.results()).toHaveLength(150);
  });
});

describe("opening again (A-10)", () => {
  it("goes in steps, a sample each, and never beyond N", async () => {
    const { harness, capacity } = gated({ budget: 0, baseline: 0.1, maxSys: 50, kind: "queue-only" });
    harness.gateway.latency = 60_000;
    await harness.submitMany(200);
    harness.start();
    await harness.run(5000);
    const running: number[] = [];
    for (let i = 0; i < 5; i++) {
      capacity.sample({ budget: 0.9 });
      await harness.run(2000);
      running.push(harness.gateway.running);
    }
    // N is 40: a quarter, a half, all.
    expect(running).toEqual([10, 20, 40, 40, 40]);
    expect(harness.gateway.peak).toBe(40);
  });

  it("goes in steps after an overload answer, too, however soon a later sample comes", async () => {
    const { harness, capacity } = gated({ budget: 1, maxSys: 40, kind: "queue-only" });
    harness.gateway.latency = 50;
    harness.gateway.reply = () => answer(429);
    await harness.submit("a");
    harness.start();
    await harness.run(51);
    harness.gateway.latency = 60_000;
    capacity.sample();
    await harness.submitMany(200);
    await harness.run(500);
    // A quarter of N, although no reading has shown it closed.
    expect(harness.gateway.running).toBe(10);
    for (let i = 0; i < 4; i++) {
      capacity.sample();
      await harness.run(2000);
    }
    expect(harness.gateway.running).toBe(40);
  });

  it("a metric that flaps lets a step through each time, and never more than N run", async () => {
    const { harness, capacity } = gated({ budget: 1, maxSys: 20 });
    harness.gateway.latency = 700;
    await harness.submitMany(500);
    harness.start();
    for (let i = 0; i < 30; i++) {
      capacity.sample({ budget: i % 2 });
      await harness.run(1000);
    }
    expect(harness.gateway.peak).toBeLessThanOrEqual(20);
    expect(harness.results().length).toBeGreaterThan(50);
  });
});

describe("a message that has waited", () => {
  it("does not leave when its gate has closed meanwhile, whatever held it up (A-9, G-12)", async () => {
    const clock = new VirtualClock(EPOCH);
    const capacity = new FakeCapacity(clock, { budget: 1, maxSys: 50 });
    let parked = true;
    const pool = {
      capacities: [],
      budget: async () => 1,
      apply: () => (parked ? ({ kind: "wait" } as const) : ({ kind: "continue" } as const)),
    };
    const harness = new Harness({ clock, gates: { q: capacity.gate(), "pool:default": pool }, workers: 8 });
    await harness.submitMany(8);
    harness.start();
    await harness.run(2000);
    capacity.sample({ budget: 0 });
    parked = false;
    await harness.run(5000);
    expect(harness.gateway.requests).toHaveLength(0);
    expect(harness.store.queue("q").size).toBe(8);
    capacity.sample({ budget: 1 });
    await harness.run(5000);
    expect(harness.results()).toHaveLength(8);
  });
});

describe("what it costs to share a gate", () => {
  it("ten queues behind one N ask the broker little more often than one does (P-3)", async () => {
    const clock = new VirtualClock(EPOCH);
    const queues = Array.from({ length: 10 }, (_, i) => queueSettings(`q${i}`));
    const { harness } = gated({ budget: 1, maxSys: 10 }, { clock, queues });
    let [claims, refused] = [0, 0];
    const { claim, settle } = harness.broker;
    harness.broker.claim = (queue, request) => {
      claims++;
      return claim.call(harness.broker, queue, request);
    };
    harness.broker.settle = (settlements) => {
      refused += settlements.filter(({ kind }) => kind === "refuse").length;
      return settle.call(harness.broker, settlements);
    };
    harness.store.latency = 1;
    harness.gateway.latency = 100;
    const submitted = queues.map(({ name }) => harness.submitMany(200, { requestQueueName: name }, `${name}-`));
    await harness.run(10);
    await Promise.all(submitted);
    harness.start();
    await harness.run(15_000);
    const done = harness.results().length;
    expect(done).toBeGreaterThan(1300);
    expect(claims / done).toBeLessThan(2);
    expect(refused / done).toBeLessThan(0.5);
  });
});
