import { describe, expect, it } from "vitest";
import { FakeCapacity, Harness, type HarnessOptions } from "../../../test/support/dispatch/harness.cases.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/** With an idle poll of an hour: whatever is not announced is not seen. */
function made(options: HarnessOptions = {}) {
  const harness = new Harness({ pollInterval: 3_600_000, ...options });
  const state = (): string => harness.dispatcher.consumers[0]!.state;
  return { harness, state };
}

describe("QueueConsumer", () => {
  it("claims what came into the queue after the broker had looked, and before its answer was here", async () => {
    const { harness } = made();
    const claim = harness.broker.claim.bind(harness.broker);
    let late = true;
    harness.broker.claim = async (queue, request) => {
      const result = await claim(queue, request);
      if (late) await harness.submit("late");
      late = false;
      return result;
    };
    harness.start();
    await harness.run(100);
    expect(harness.resultOf("late")?.statusCode).toBe(200);
  });

  it("asks a broker that is there again within a moment, and one that stays away once a second", async () => {
    const { harness, state } = made();
    const claim = harness.broker.claim.bind(harness.broker);
    let asked = 0;
    harness.broker.claim = () => {
      asked++;
      return Promise.reject(new SluiceError("BROKER_UNAVAILABLE", "away"));
    };
    harness.start();
    await harness.submit("a");
    await harness.run(10_500);
    expect(state()).toBe("unavailable");
    expect(asked).toBeGreaterThanOrEqual(10);
    expect(asked).toBeLessThanOrEqual(13);
    harness.broker.claim = claim;
    harness.store.announce("q");
    await harness.run(60);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });

  it("asks a broker that says that something waits and gives nothing some twenty times a second", async () => {
    const { harness } = made();
    let asked = 0;
    harness.broker.claim = async () => {
      asked++;
      return { claims: [], waiting: 1, time: harness.clock.wall() };
    };
    harness.start();
    await harness.run(1000);
    expect(asked).toBeGreaterThanOrEqual(18);
    expect(asked).toBeLessThanOrEqual(22);
  });

  it("reads past the caches whether a closed gate has opened, while it is closed", async () => {
    const base = new Harness();
    const capacity = new FakeCapacity(base.clock, { budget: 0 });
    const fresh: boolean[] = [];
    const read = capacity.read.bind(capacity) as (fresh: boolean) => ReturnType<typeof capacity.read>;
    capacity.read = ((past: boolean) => {
      fresh.push(past);
      return read(past);
    }) as typeof capacity.read;
    const { harness, state } = made({ clock: base.clock, gates: { q: capacity.gate() } });
    await harness.submit("a");
    harness.start();
    await harness.run(5000);
    expect(state()).toBe("closed");
    expect(fresh.filter(Boolean).length).toBeGreaterThanOrEqual(4);
    capacity.sample({ budget: 1 });
    await harness.run(1100);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });

  it("is claiming while the broker does not answer, blocked by a message that does not fit, and stopped at the end", async () => {
    const base = new Harness();
    const capacity = new FakeCapacity(base.clock, { maxSys: 1000, unit: "bytes" });
    const { harness, state } = made({ clock: base.clock, gates: { q: capacity.gate() } });
    harness.gateway.latency = 5000;
    const claim = harness.broker.claim.bind(harness.broker);
    let answers = false;
    harness.broker.claim = async (queue, request) => {
      while (!answers) await new Promise<void>((resolve) => harness.clock.after(100, resolve));
      return claim(queue, request);
    };
    await harness.submit("small", { deadline: harness.in(1000), payload: { prompt: "x" } });
    await harness.submit("large", { deadline: harness.in(2000), payload: { prompt: "x".repeat(980) } });
    harness.start();
    await harness.run(1000);
    expect(state()).toBe("claiming");
    answers = true;
    await harness.run(1500);
    expect(state()).toBe("blocked");
    await harness.run(10_000);
    expect(harness.results().map(({ id }) => id)).toEqual(["small", "large"]);
    expect(state()).toBe("empty");
    const stopped = harness.dispatcher.stop(0);
    await harness.run(5000);
    await stopped;
    expect(state()).toBe("stopped");
  });
});
