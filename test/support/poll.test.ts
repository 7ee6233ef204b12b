import { describe, expect, it } from "vitest";
import { InVain, type PollWorld, poll } from "./poll.ts";
import { fixedLimit, slowness, slownessAtStart } from "./slowness.ts";

/** A world in which time passes by sleeping alone. `later` is how slow each further measurement finds the machine. */
function world(atStart: number, ...later: number[]) {
  let now = 0;
  const made = {
    now: () => now,
    sleep: async (ms: number) => {
      now += ms;
    },
    slownessAtStart: () => atStart,
    measureSlowness: async () => (later.length > 1 ? later.shift()! : later[0]!),
  };
  return made satisfies PollWorld;
}

const waited = async (it: PollWorld): Promise<number> => {
  await expect(poll("rain", () => false, 1000, it)).rejects.toThrow("rain: not within 1000 ms");
  return it.now();
};

describe("a wait", () => {
  it("is as long as its limit on an idle machine", async () => {
    expect(await waited(world(1, 1))).toBe(1020);
  });

  it("is as many times longer as the machine was slow at the start of the run", async () => {
    expect(await waited(world(5, 5))).toBe(5020);
  });

  it("goes on where the machine has become slower since, and ends when it is no more", async () => {
    expect(await waited(world(1, 3, 6, 6))).toBe(6020);
    expect(await waited(world(2, 8, 1))).toBe(8020);
  });

  it("goes on where its own pauses were late, though the machine is quick when it is measured", async () => {
    const it = world(1, 1);
    const { sleep } = it;
    // 60 ms for 20: 2.4 times what may be.
    expect(await waited({ ...it, sleep: (ms) => sleep(3 * ms) })).toBe(2460);
  });

  it("ends with a last look: the one before may have begun long ago", async () => {
    const it = world(1, 1);
    let looks = 0;
    const probe = async () => {
      if (looks++ > 0) return "sun";
      await it.sleep(60_000);
      return false;
    };
    expect(await poll("dry weather", probe, 1000, it)).toBe("sun");
  });

  it("never ends early because the machine has become faster", async () => {
    expect(await waited(world(4, 1))).toBe(4020);
  });

  it("ends at once with what a probe finds, and where it is in vain", async () => {
    const it = world(1, 1);
    expect(await poll("dry weather", () => "sun", 1000, it)).toBe("sun");
    const inVain = () => {
      throw new InVain("the sun is gone");
    };
    await expect(poll("dry weather", inVain, 1000, it)).rejects.toThrow("the sun is gone");
    expect(it.now()).toBe(0);
  });

  it("says what the probe said last", async () => {
    const probe = () => {
      throw new Error("clouds");
    };
    await expect(poll("sun", probe, 100, world(1, 1))).rejects.toThrow("stretched to 120 ms; last: Error: clouds");
  });
});

describe("slowness", () => {
  it("is the worse one of late work and late timers, from 1 to 100", () => {
    expect(slowness(10, 5)).toBe(1);
    expect(slowness(450, 5)).toBe(10);
    expect(slowness(45, 80)).toBe(8);
    expect(slowness(1e9, 5)).toBe(100);
  });

  it("was measured before this run, and limits that cannot be moved have room beyond it", () => {
    expect(process.env["SLUICE_SLOWNESS"]).toBeDefined();
    expect(slownessAtStart()).toBeGreaterThanOrEqual(1);
    expect(fixedLimit(1000)).toBe(Math.ceil(10_000 * slownessAtStart()));
  });
});
