import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type LogFields, type Logger, silentLogger } from "../telemetry/logger.ts";
import { cgroupMemory, LEAST_MEMORY, memoryPlan, memoryPlanOf, reportMemory, UNLIMITED } from "./memory-plan.ts";

const MIB = 1024 * 1024;

function reported(limit: number, heap: number): readonly string[] {
  const lines: string[] = [];
  const to =
    (level: string) =>
    (_: LogFields, message: string): void =>
      void lines.push(`${level}: ${message}`);
  const log: Logger = { ...silentLogger, info: to("info"), warn: to("warn") };
  reportMemory(memoryPlan(limit), log, heap);
  return lines;
}

describe("the plan for a memory limit", () => {
  it.each([
    [192, { heapGrowth: 50, index: 11, bodies: 8, smallBodies: 2 }],
    [256, { heapGrowth: 50, index: 33, bodies: 24, smallBodies: 6 }],
    [512, { heapGrowth: 100, index: 123, bodies: 88, smallBodies: 22 }],
    [1024, { heapGrowth: 300, index: 302, bodies: 216, smallBodies: 54 }],
    // The limit of the charts: nothing is below its default.
    [2048, { heapGrowth: 300, index: 660, bodies: 472, smallBodies: 118 }],
  ])("of %d MiB", (mib, wanted) => {
    const { heapGrowth, index, bodies, smallBodies } = memoryPlan(mib * MIB);
    const inMib = (bytes: number): number => Math.floor(bytes / MIB);
    expect({ heapGrowth, index: inMib(index), bodies: inMib(bodies), smallBodies: inMib(smallBodies) }).toEqual(wanted);
  });

  it("leaves an idle process and a third of the rest free, with any limit", () => {
    fc.assert(
      fc.property(fc.integer({ min: LEAST_MEMORY, max: 2 ** 40 }), (limit) => {
        const { index, bodies, smallBodies } = memoryPlan(limit);
        expect(index + bodies + smallBodies).toBeLessThan((limit - 160 * MIB) * (2 / 3) + 1);
        expect(Math.min(index, bodies, smallBodies)).toBeGreaterThan(0);
      }),
    );
  });

  it("takes the flag, then the cgroup, then nothing", () => {
    expect(memoryPlanOf(512 * MIB, 1024 * MIB)).toEqual(memoryPlan(512 * MIB));
    expect(memoryPlanOf(undefined, 1024 * MIB)).toEqual(memoryPlan(1024 * MIB));
    expect(memoryPlanOf(0, 1024 * MIB)).toEqual(UNLIMITED);
    expect(memoryPlanOf(undefined, Number.POSITIVE_INFINITY)).toEqual(UNLIMITED);
  });

  it("sees no limit in a cgroup that allows more than the machine has", () => {
    expect([0, 2 ** 64, 4096, 1024].map((constrained) => cgroupMemory(constrained, 4096))).toEqual([
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
      1024,
    ]);
  });
});

describe("the report of a memory limit", () => {
  it("says nothing without one", () => {
    expect(reported(Number.POSITIVE_INFINITY, 2 ** 40)).toEqual([]);
  });

  it("is one line where everything fits", () => {
    expect(reported(512 * MIB, 300 * MIB)).toEqual([
      "info: the process has a memory limit, which caps the default sizes: see index, bodies and smallBodies",
    ]);
  });

  it("warns of a heap that may outgrow it, and of a limit that is too small", () => {
    expect(reported(512 * MIB, 2048 * MIB)[1]).toBe(
      "warn: the heap may grow to 2048 MiB, above the memory limit of 512 MiB; set NODE_OPTIONS=--max-old-space-size=307",
    );
    expect(reported(100 * MIB, 60 * MIB)[1]).toBe(
      "warn: the memory limit is 100 MiB, less than 192 MiB: the system may end the process under load",
    );
  });
});
