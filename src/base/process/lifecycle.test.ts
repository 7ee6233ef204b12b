import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import { silentLogger } from "../telemetry/logger.ts";
import { type Running, untilHardStop, untilSignal } from "./lifecycle.ts";

describe("untilHardStop", () => {
  it("waits for what ends, and 30 s for what does not", async () => {
    const clock = new VirtualClock();
    await untilHardStop(clock, Promise.resolve());
    let stopped = false;
    const never = untilHardStop(clock, new Promise(() => {})).then(() => {
      stopped = true;
    });
    await clock.advanceAsync(29_999);
    expect(stopped).toBe(false);
    await clock.advanceAsync(1);
    await never;
    expect(stopped).toBe(true);
  });

  it("calls 5 s before its end what refuses waiting work, unless all has ended by then", async () => {
    const clock = new VirtualClock();
    const called: number[] = [];
    const stop = untilHardStop(clock, new Promise(() => {}), () => called.push(clock.now()));
    await untilHardStop(clock, Promise.resolve(), () => called.push(Number.NaN));
    await clock.advanceAsync(30_000);
    await stop;
    expect(called).toEqual([25_000]);
    expect(clock.pending).toBe(0);
  });
});

describe("untilSignal (E-128)", () => {
  const before = new Map<NodeJS.Signals, NodeJS.SignalsListener[]>();

  beforeEach(() => {
    // The test runner's own listeners stay out of it.
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      before.set(signal, process.listeners(signal) as NodeJS.SignalsListener[]);
      process.removeAllListeners(signal);
    }
    vi.spyOn(process, "exit").mockImplementation((code) => {
      throw new Error(`exit ${code}`);
    });
  });
  afterEach(() => {
    vi.restoreAllMocks();
    for (const [signal, listeners] of before) {
      process.removeAllListeners(signal);
      for (const listener of listeners) process.on(signal, listener);
    }
  });

  /** A process that drains when the test says so. */
  function runnable() {
    const ends: { resolve(): void; reject(error: Error): void } = { resolve() {}, reject() {} };
    const running: Running = {
      drain: () => new Promise<void>((resolve, reject) => Object.assign(ends, { resolve, reject })),
      close: async () => {},
    };
    return { running, ends };
  }

  it.each(["SIGTERM", "SIGINT"] as const)("drains on %s and ends with 0 when that is done", async (signal) => {
    const { running, ends } = runnable();
    const ended = untilSignal(Promise.resolve(running), silentLogger);
    await Promise.resolve();
    await Promise.resolve();
    process.emit(signal);
    ends.resolve();
    expect(await ended).toBe(0);
  });

  it("ends with 1 at once on the second signal, and when draining fails", async () => {
    const { running, ends } = runnable();
    const ended = untilSignal(running, silentLogger);
    await Promise.resolve();
    await Promise.resolve();
    process.emit("SIGTERM");
    expect(() => process.emit("SIGINT")).toThrow("exit 1");
    ends.reject(new Error("stuck"));
    expect(await ended).toBe(1);
  });

  it("ends with 0 at once while nothing runs yet", () => {
    void untilSignal(new Promise<Running>(() => {}), silentLogger);
    expect(() => process.emit("SIGTERM")).toThrow("exit 0");
  });

  it("leaves the error of a start that failed to the one who started", async () => {
    const failed = Promise.reject<Running>(new Error("no port"));
    let ended = false;
    void untilSignal(failed, silentLogger).then(() => {
      ended = true;
    });
    await expect(failed).rejects.toThrow("no port");
    await Promise.resolve();
    expect(ended).toBe(false);
  });
});
